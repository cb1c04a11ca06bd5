"""Traindeck: opens the window, or does from a terminal what the window does."""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130
"""`Exit.INTERRUPTED` of `engine.cli.output`, without its imports."""

try:
    import signal
except KeyboardInterrupt:  # this import has some of its own
    sys.stderr.write("The command was interrupted.\n")
    sys.exit(_INTERRUPTED)


_IS_PROGRAM = __name__ == "__main__" or os.path.basename(sys.argv[0]) == "traindeck"  # noqa: PTH119
if _IS_PROGRAM and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C in the imports is no traceback

# ruff: noqa: E402
import argparse
import contextlib
import logging
import re
from collections.abc import Sequence
from itertools import takewhile

from engine.cli.parser import Parser, make_parser, print_refusal
from engine.system.program import call, version
from engine.system.streams import lossy_stream, open_closed_streams, output_was_lost

_log = logging.getLogger("engine.cli")


def entry() -> int:
    """Run the program that the command line asks for, and return the exit code of the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    open_closed_streams()
    if not sys.stderr.isatty():
        sys.stderr = lossy_stream(2, sys.stderr.encoding)  # progress must not end a command
    try:
        code = main()
        _keep_result()
        if code == 0 and output_was_lost():
            print("What was printed is lost: standard output is closed.", file=sys.stderr)
            code = 1
    except KeyboardInterrupt:  # during the imports, which take half a second
        _keep_result()
        print("The command was interrupted.", file=sys.stderr)
        code = _INTERRUPTED
    return code


def _keep_result() -> None:
    """Ignore Ctrl-C from now on: it comes too late to change what a command has done.

    The interpreter takes as long to end as the imports took, and the signal would end it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not that of the window
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for, and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    own = list(takewhile(lambda text: text != "--", arguments))
    Parser.prints_json = "--json" in own
    Parser.names_machine = any(text.partition("=")[0] == "--on" for text in own)
    parser = make_parser(__doc__ or "")
    arguments = _with_flags_as_values(arguments)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    for text in arguments[:at]:  # what follows is the command of a script: it may have lines
        if not text.isprintable():
            parser.error(f"{text!r} is not an argument: it holds characters that cannot be shown")
    options = parser.parse_args(arguments, argparse.Namespace(command="", log_level="", machine=""))
    if options.version:
        from engine.cli.errors import report_errors

        return report_errors(_print_version)
    from engine.files.ownership import NotPrivate
    from engine.system import logs, paths

    notice = ""
    try:
        notice = paths.prepare_home()
    except (NotPrivate, paths.UnusableHome) as error:
        return _refuse(str(error), in_window=not options.command)
    except OSError:
        pass  # not every command needs the folder; those that do report it
    if notice:
        print(notice, file=sys.stderr)
    try:
        logs.start("cli" if options.command else "window", level=options.log_level)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    if not options.command:
        return _open_window(notice)
    from engine.cli.calls import call_command
    from engine.cli.errors import report_errors
    from engine.scripts.secrets import shown_words

    secret = getattr(options, "token", "")
    words = [text.replace(secret, "…") if secret else text for text in arguments]
    _log.info("called with %s", shown_words(words))

    code = report_errors(lambda: call_command(options), json=Parser.prints_json)
    _log.info("exits with code %d", code)
    if code == 0 and (found := getattr(options, "opened", None)) and not Parser.prints_json:
        return _open_window("", found[0])
    return code


def _with_flags_as_values(arguments: Sequence[str]) -> list[str]:
    """Join `--resume-with`, and `--sort` of `runs`, by `=` with a value that begins with `-`.

    argparse takes none.
    """
    joined: list[str] = []
    is_runs = "runs" in arguments and "run" not in arguments
    for at, text in enumerate(arguments):
        if text == "--":
            return [*joined, *arguments[at:]]
        if joined and joined[-1] == "--resume-with":
            joined[-1] = f"--resume-with={text}"
        elif joined[1:] and joined[-1] == "--sort" and re.match(r"-[^-]", text) and is_runs:
            joined[-1] = f"--sort={text}"
        else:
            joined.append(text)
    return joined


def _print_version() -> int:
    print(f"traindeck {version()}")
    return 0


def _refuse(text: str, *, in_window: bool) -> int:
    """Say why nothing is done, also in a window if one would have opened; return the exit code."""
    print(text, file=sys.stderr)
    if Parser.prints_json:
        print_refusal(text)
    if in_window:
        with contextlib.suppress(ImportError):
            from gui.window.application import show_refusal

            show_refusal(text)
    return 2


def _open_window(notice: str, run_id: str = "") -> int:
    try:
        from gui.app import run
    except ImportError as error:
        print(
            f"The window cannot be opened: {error}. Train from the command line instead: "
            f"see `{call('train --help')}`.",
            file=sys.stderr,
        )
        return 2
    return run(sys.argv, notice, run_id)


if __name__ == "__main__":
    sys.exit(entry())
