"""Traindeck: opens the window, or does from a terminal what the window does."""

from __future__ import annotations

import os
import signal
import sys

_IS_PROGRAM = __name__ == "__main__" or os.path.basename(sys.argv[0]) == "traindeck"  # noqa: PTH119
if _IS_PROGRAM and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C in the imports is no traceback

# ruff: noqa: E402
import argparse
import contextlib
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from engine.system.program import IN_CHECKOUT, call, find_tools, program_words, version
from engine.system.streams import lossy_stream, open_closed_streams

DEVICES = "such as cpu:0,cpu:1 or gpu:0 or all-gpus or UUIDs"
WITHOUT_DATA = ("record-gpus", "screenshots")
"""Commands that use no data of the user, and so leave the data folder alone."""

_log = logging.getLogger("engine.cli")


class Parser(argparse.ArgumentParser):
    """Reports bad usage in one sentence on standard error, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("argument COMMAND: invalid choice: ", "There is no command ")
        match = re.fullmatch(r"argument ([^:]+): (.*)", message, re.DOTALL)
        text = f"{match[1]} {match[2]}" if match else message[0].upper() + message[1:]
        self.exit(2, f"{text.rstrip('.')}. `{self.prog} --help` explains.\n")


def entry() -> int:
    """Run the program that the command line asks for, and return the exit code of the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    open_closed_streams()
    if not sys.stderr.isatty():
        sys.stderr = lossy_stream(2, sys.stderr.encoding)  # progress must not end a command
    try:
        return main()
    except KeyboardInterrupt:  # during the imports, which take half a second
        return 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for, and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    for text in arguments:
        if not text.isprintable():
            parser.error(f"{text!r} is not an argument: it holds characters that cannot be shown")
    options = parser.parse_args(arguments, argparse.Namespace(command="", log_level=""))
    if options.version:
        from engine.cli.errors import report_errors

        return report_errors(_print_version)
    from engine.files.ownership import NotPrivate
    from engine.system import logs, paths

    notice = ""
    try:
        if options.command not in WITHOUT_DATA:
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
    from engine.cli.errors import report_errors

    _log.info("called with %s", arguments)
    code = report_errors(lambda: _run(options))
    _log.info("exits with code %d", code)
    return code


def _print_version() -> int:
    print(f"traindeck {version()}")
    return 0


def _refuse(text: str, *, in_window: bool) -> int:
    """Say why nothing is done, also in a window if one would have opened; return the exit code."""
    print(text, file=sys.stderr)
    if in_window:
        with contextlib.suppress(ImportError):
            from gui.window.application import show_refusal

            show_refusal(text)
    return 2


def _open_window(notice: str) -> int:
    try:
        from gui.app import run
    except ImportError as error:
        print(
            f"The window cannot be opened: {error}. Train from the command line instead: "
            f"see `{call('train --help')}`.",
            file=sys.stderr,
        )
        return 2
    return run(sys.argv, notice)


def _parser() -> Parser:
    log = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    log.add_argument(
        "--log-level",
        metavar="LEVEL",
        help="debug, info, warning or error: log to files (default: $TRAINDECK_LOG, else no log)",
    )
    parser = Parser(
        prog=" ".join(program_words()),
        description=__doc__,
        epilog="Without a command, the window opens.",
        parents=[log],
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)

    def add(name: str, about: str, *parents: Parser) -> Parser:
        command = commands.add_parser(name, help=about, description=about, parents=[*parents, log])
        command.set_defaults(command=name)
        return command

    run, json, detach = Parser(add_help=False), Parser(add_help=False), Parser(add_help=False)
    run.add_argument("id", metavar="ID", help="the run's number")
    json.add_argument("--json", action="store_true", help="the last line is JSON for a program")
    detach.add_argument("--detach", action="store_true", help="return once it has started")

    train = add("train", "start a run and follow it", json, detach)
    train.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    train.add_argument("--strategy", metavar="NAME", help="a name (default: single)")
    train.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    train.add_argument("--name", default="", help="name of the run")
    _add_run_options(train)
    add("runs", "list the runs", json)
    queue = add("queue", "list the runs that wait for devices, or change their order", json)
    queue.add_argument(
        "--move", nargs=2, metavar=("ID", "WHERE"), help="move a waiting run up, down or first"
    )
    add("show", "show one run", run, json)
    add("attach", "follow an active run; Ctrl-C does not stop it", run, json)
    stop = add("stop", "save, then end a run", run)
    stop.add_argument("--now", action="store_true", help="end it at once, without saving")
    add("checkpoint", "save a checkpoint now", run)
    pause = add("pause", "pause a run at its next step", run)
    pause.add_argument(
        "--free-gpus", action="store_true", help="move its model to the host's memory meanwhile"
    )
    resume = add("resume", "continue a paused or ended run", run, json, detach)
    resume.add_argument(
        "--checkpoint", metavar="NAME", help="checkpoint, or 'beginning' (default: newest)"
    )
    resume.add_argument("--strategy", metavar="NAME", help="continue with another strategy")
    resume.add_argument("--devices", metavar="LIST", help=f"continue on other devices, {DEVICES}")
    resume.add_argument("--name", help="new name of the run")
    resume.add_argument(
        "--as-new-run", action="store_true", help="continue as a new run, and keep this one"
    )
    resume.add_argument(
        "--recipe",
        choices=("as-it-was", "as-it-is-now"),
        help="if the recipe has changed: go on with the run's copy of it, or with the changed file "
        "(default: ask; without a terminal, as-it-was)",
    )
    resume.add_argument(
        "--take-over", action="store_true", help="also if it was on another machine, which is gone"
    )
    _add_run_options(resume, "the run's own")
    add("empty-cache", "free unused memory of a run's devices", run)
    add("strategies", "list the strategies, and whether this machine can run them", json)
    add("devices", "list the devices of this machine, and the frameworks that are loaded", json)
    _add_warm(add("warm", "load frameworks in advance, so that runs start at once", json))
    add("recipes", "list the built-in recipes", json)
    fsck = add("fsck", "check the files of runs, and mend them", json)
    fsck.add_argument("ids", metavar="ID", nargs="*", help="a run's number (default: everything)")
    fsck.add_argument("--repair", action="store_true", help="mend what can be mended")
    desktop = add("desktop-entry", "add Traindeck to this user's menu of applications (Linux)")
    desktop.add_argument("--remove", action="store_true", help="remove it from the menu")
    if IN_CHECKOUT:  # an installed package has no tools/
        record = add("record-gpus", "save what the NVIDIA driver answers, for a report")
        record.add_argument("file", metavar="FILE", type=Path, help="where to save it, as JSON")
        pictures = add("screenshots", "save pictures of the window with recorded runs")
        pictures.add_argument("folder", metavar="DIR", type=Path, help="where to save them")
        pictures.add_argument(
            "--only", default="*", metavar="PATTERN", help="such as 'running-*' or '*-1280x800'"
        )
    return parser


def _add_warm(parser: Parser) -> None:
    from engine.templates.kinds import KINDS

    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--framework",
        choices=KINDS,
        action="append",
        default=[],
        help="load only this one; may be given several times (default: all)",
    )
    either.add_argument("--list", action="store_true", help="load none, list those that are there")
    either.add_argument(
        "--off",
        action="store_true",
        help="unload them, and let no window and no run load them again",
    )
    either.add_argument("--on", action="store_true", help="the opposite of --off")


def _add_run_options(parser: Parser, default: str = "") -> None:
    """Add the flags for the settings of the recipe and for the fields of a spec."""
    from engine.cli.options import add_options

    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the recipe; may be given several times",
    )
    add_options(parser, default)


def _run(options: argparse.Namespace) -> int:
    """Carry out the command. The imports are in here, so that --help is quick."""
    from engine.cli import commands, desktop_entry, fsck, listings, queue, show, warm
    from engine.cli.options import given_options
    from engine.cli.train import RunOptions, resume, train

    match options.command:
        case "train" | "resume":
            run_options = RunOptions(
                strategy=options.strategy,
                devices=options.devices,
                name=options.name,
                settings=options.settings,
                fields=given_options(options),
            )
            if options.command == "train":
                return train(options.recipe, run_options, detach=options.detach, json=options.json)
            return resume(
                options.id,
                run_options,
                checkpoint=options.checkpoint,
                as_new=options.as_new_run,
                recipe=options.recipe,
                takes_over=options.take_over,
                detach=options.detach,
                json=options.json,
            )
        case "runs":
            return listings.runs(json=options.json)
        case "queue" if options.move:
            return queue.move(*options.move, json=options.json)
        case "queue":
            return queue.show(json=options.json)
        case "show":
            return show.show(options.id, json=options.json)
        case "attach":
            return commands.attach(options.id, json=options.json)
        case "stop":
            return commands.stop(options.id, now=options.now)
        case "checkpoint":
            return commands.checkpoint(options.id)
        case "pause":
            return commands.pause(options.id, free_devices=options.free_gpus)
        case "empty-cache":
            return commands.empty_cache(options.id)
        case "strategies":
            return listings.strategies(json=options.json)
        case "devices":
            return listings.devices(json=options.json)
        case "warm" if options.list:
            return warm.show(json=options.json)
        case "warm" if options.off:
            return warm.switch_off(json=options.json)
        case "warm" if options.on:
            return warm.switch_on(json=options.json)
        case "warm":
            return warm.load(options.framework, json=options.json)
        case "recipes":
            return listings.recipes(json=options.json)
        case "fsck":
            return fsck.fsck(options.ids, repair=options.repair, json=options.json)
        case "desktop-entry":
            return desktop_entry.remove() if options.remove else desktop_entry.install()
        case "record-gpus":
            find_tools()
            from tools.record_gpus import record_gpus

            return record_gpus(options.file)
        case "screenshots":
            find_tools()
            from tools.screenshots.pictures import save_pictures

            return save_pictures(options.folder, options.only)
        case _:
            raise AssertionError(options.command)


if __name__ == "__main__":
    sys.exit(entry())
