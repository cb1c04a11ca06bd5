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
import json
import logging
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from engine.system.program import (
    IN_CHECKOUT,
    call,
    find_tools,
    program_words,
    version,
)
from engine.system.streams import lossy_stream, open_closed_streams

if TYPE_CHECKING:
    from engine.cli.commands.train import RunOptions
    from engine.interface.engine import Engine

DEVICES = "such as cpu:0,cpu:1 or gpu:0 or all-gpus or UUIDs"
WITHOUT_DATA = ("record-gpus", "screenshots")
"""Commands that use no data of the user, and so leave the data folder alone."""

_log = logging.getLogger("engine.cli")


class Parser(argparse.ArgumentParser):
    """Reports bad usage in one sentence on standard error, with exit code 2."""

    names_machine = False
    """Whether the arguments hold `--on`."""

    prints_json = False
    """Whether the arguments ask for JSON, which must say so too."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("argument COMMAND: invalid choice: ", "There is no command ")
        match = re.fullmatch(r"argument ([^:]+): (.*)", message, re.DOTALL)
        text = f"{match[1]} {match[2]}" if match else message[0].upper() + message[1:]
        text = f"{text.rstrip('.')}. `{self.prog} --help` explains."
        is_unknown = re.match(r"unrecognized arguments: (?:.* )?--on\b", message) is not None
        if is_unknown or (self.names_machine and message.startswith("argument ACTION: invalid")):
            text = "This command works on this machine only: leave out `--on`."
        if self.prints_json:
            _print_refusal(text)
        self.exit(2, f"{text}\n")


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
    parser = _parser()
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

    secret = getattr(options, "token", "")
    _log.info(
        "called with %s", [text.replace(secret, "…") if secret else text for text in arguments]
    )
    code = report_errors(lambda: _run(options), json=Parser.prints_json)
    _log.info("exits with code %d", code)
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
        _print_refusal(text)
    if in_window:
        with contextlib.suppress(ImportError):
            from gui.window.application import show_refusal

            show_refusal(text)
    return 2


def _print_refusal(text: str) -> None:
    """Print what `engine.cli.output.refusal_as_json` does, without its imports."""
    problem = {"field": "", "text": text}
    sys.stdout.write(json.dumps({"state": "refused", "problems": [problem]}) + "\n")


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
    there = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    there.add_argument(
        "--on",
        dest="machine",
        type=_named_machine,
        metavar="MACHINE",
        help="do it on another machine: a name that `machines` shows, or what ssh understands",
    )
    run.add_argument("id", metavar="ID", help="the run's number; MACHINE:ID on another machine")
    json.add_argument("--json", action="store_true", help="the last line is JSON for a program")
    detach.add_argument("--detach", action="store_true", help="return once it has started")

    train = add("train", "start a run and follow it", json, detach, there)
    train.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    train.add_argument("--strategy", metavar="NAME", help="a name (default: single)")
    train.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    _add_environment(train, "the Python that trains it", default="that of `env use`, or traindeck")
    _add_name(train)
    train.add_argument(
        "--planned",
        type=int,
        metavar="N",
        help="keep with it what `race` or `preflight` measured before, by number",
    )
    _add_run_options(train)
    script = add("run", "run a script or any command as it is, and follow it", json, detach, there)
    _add_script_options(script)
    check = add("check", "try a recipe on one batch, and say what is found", json, there)
    check.add_argument("recipe", metavar="RECIPE", help="a name or a .py file")
    check.add_argument("--strategy", metavar="NAME", help="a name (default: single)")
    check.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    _add_environment(check, "the Python that tries it", default="that of `env use`, or traindeck")
    check.add_argument(
        "--seconds", type=float, default=120.0, metavar="S", help="time for it (default: 120)"
    )
    _add_run_options(check)
    _add_race(add("race", "some steps with each strategy: which is the fastest?", json, there))
    about = "measure for a minute what a run would meet, and say what to change"
    _add_preflight(add("preflight", about, json, there))
    _add_memory(add("memory", "predict the peak memory of a run before it starts", json, there))
    about = "search the largest batch that fits, and the fastest"
    _add_memory(add("batch-size", about, json, there))
    _add_new_recipe(add("new-recipe", "write a commented recipe that trains as it is", json))
    _add_runs(add("runs", "list the runs: filtered, sorted, with chosen columns", json, there))
    queue = add("queue", "list the runs that wait for devices, or change their order", json, there)
    queue.add_argument(
        "--move", nargs=2, metavar=("ID", "WHERE"), help="move a waiting run up, down or first"
    )
    show_one = add("show", "show one run, and what it was started with", run, json, there)
    show_one.add_argument(
        "--diff", action="store_true", help="print the changes of its code that were not committed"
    )
    add("attach", "follow an active run; Ctrl-C does not stop it", run, json, there)
    stop = add("stop", "save, then end a run", run, there)
    stop.add_argument("--now", action="store_true", help="end it at once, without saving")
    add("checkpoint", "save a checkpoint now", run, there)
    _add_checkpoints(add("checkpoints", "list the checkpoints, or copy one", run, json, there))
    pause = add("pause", "pause a run at its next step", run, there)
    pause.add_argument(
        "--free-gpus", action="store_true", help="move its model to the host's memory meanwhile"
    )
    resume = add("resume", "continue a paused or ended run", run, json, detach, there)
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
    _add_environment(resume, "continue with the Python of another environment")
    _add_variables(resume)
    _add_run_options(resume, "the run's own")
    add("empty-cache", "free unused memory of a run's devices", run, there)
    add("strategies", "list the strategies, and whether this machine can run them", json, there)
    add(
        "devices",
        "list the devices of this machine, and the frameworks that are loaded",
        json,
        there,
    )
    warm = add("warm", "keep frameworks loaded, so that runs start at once, or do not", json, there)
    warm.add_argument("choice", nargs="?", choices=["on", "off"], metavar="on|off")
    add("recipes", "list the built-in recipes", json)
    env = add("env", "the Pythons that runs can use: add, make, list, check, remove", there)
    _add_env(env, log, json, there)
    _add_export(add("export", "write runs for other programs", json, there))
    _add_import(add("import", "make runs of TensorBoard logs and CSV files", json, there))
    _add_sweep(add("sweep", "many runs that differ in some settings", json, detach, there))
    _add_machines(
        add("machines", "other machines, over SSH: add, list, check, remove", json), log, json
    )
    _add_cluster(
        add("cluster", "machines that train one run together: start, join, leave", json), log, json
    )
    fsck = add("fsck", "check the files of runs, and mend them", json, there)
    fsck.add_argument("ids", metavar="ID", nargs="*", help="a run's number (default: everything)")
    fsck.add_argument("--repair", action="store_true", help="mend what can be mended")
    doctor = add("doctor", "check whether this machine can train, and say what to do", json, there)
    doctor.add_argument(
        "--full",
        action="store_true",
        help="also train each strategy for seconds, and write one file for a report",
    )
    doctor.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="the new file of --full (default: a name with the time, here)",
    )
    doctor.add_argument(
        "--env",
        dest="environment",
        metavar="NAME|PATH",
        help="check the frameworks of this environment (default: of the one that trains recipes)",
    )
    serve = add("serve", "what another Traindeck starts here over SSH; not for people")
    serve.add_argument("nonce", metavar="NONCE", help="what its first line ends with")
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


def _add_race(parser: Parser) -> None:
    """Add the flags of `race`: those of `train`, and what it varies."""
    parser.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    parser.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    _add_environment(parser, "the Python that trains it", default="that of `env use`, or traindeck")
    race = parser.add_argument_group("the race")
    race.add_argument(
        "--strategies", default="all", metavar="LIST", help="such as ddp,fsdp (default: all)"
    )
    race.add_argument(
        "--batch-sizes", default="", metavar="LIST", help="global batches, such as 64,128"
    )
    race.add_argument("--precisions", default="", metavar="LIST", help="such as fp32,bf16")
    race.add_argument(
        "--device-counts",
        default="",
        metavar="LIST",
        help="how many of the devices, such as 1,2,4 (default: all of them)",
    )
    race.add_argument(
        "--side-by-side",
        action="store_true",
        help="as many at one time as there are devices (default: one after the other)",
    )
    _add_run_options(parser)
    parser.set_defaults(steps=60)


def _add_memory(parser: Parser) -> None:
    """Add the flags of `memory` and `batch-size`."""
    parser.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    parser.add_argument("--strategy", metavar="NAME", help="a name (default: single)")
    parser.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    parser.add_argument(
        "--memory-limit",
        type=int,
        default=0,
        metavar="MIB",
        help="memory of all CPU devices together (default: what the machine has free)",
    )
    _add_environment(parser, "the Python that trains", default="that of `env use`, or traindeck")
    _add_run_options(parser)


def _add_new_recipe(parser: Parser) -> None:
    from engine.spec.catalog import template_kinds

    parser.add_argument(
        "name", nargs="?", default="recipe.py", metavar="NAME", help="(default: recipe.py)"
    )
    parser.add_argument(
        "--for", dest="kind", choices=template_kinds(), default="torch", help="(default: torch)"
    )


def _add_export(parser: Parser) -> None:
    """Add the flags of `export`."""
    # Not from the package that writes them: its imports would slow down every command.
    formats = "csv", "html", "parquet", "tensorboard"
    parser.add_argument("ids", metavar="RUN", nargs="+", help="a run's number; all: every run")
    parser.add_argument(
        "--format",
        choices=formats,
        required=True,
        help="csv, parquet: two tables, of points and of runs; html: one page about a run, "
        "or a comparison of several; tensorboard: event files",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=Path,
        help="the new folder or page (default: a name made from the runs, here)",
    )


def _add_checkpoints(parser: Parser) -> None:
    parser.add_argument(
        "--copy", metavar="NAME", help="copy this one, or the 'newest', and compare its checksums"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="the new folder of the copy (default: a name made from run and checkpoint, here)",
    )


def _add_import(parser: Parser) -> None:
    """Add the flags of `import`."""
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a folder with TensorBoard logs, an event file, a CSV file, or a folder with those",
    )
    columns = parser.add_argument_group("columns of a CSV file", "where its header does not tell")
    for name, what in (
        ("step", "the step"),
        ("time", "the time of a point: seconds since 1970, or a date and time"),
        ("series", "the name of the series, if each line is one point"),
        ("value", "the value"),
        ("run", "the name of the run, if a file has several"),
    ):
        columns.add_argument(
            f"--{name}-column", metavar="NAME", default="", help=f"the column with {what}"
        )


def _add_env(parser: Parser, *parents: Parser) -> None:
    actions = parser.add_subparsers(
        metavar="ACTION", dest="action", required=True, parser_class=Parser
    )

    def action(name: str, about: str) -> Parser:
        return actions.add_parser(name, help=about, description=about, parents=list(parents))

    def named(name: str, about: str) -> Parser:
        found = action(name, about)
        found.add_argument("name", metavar="NAME", help="the name of the environment")
        return found

    add = named("add", "add an environment, or make one")
    add.add_argument(
        "--python",
        metavar="PATH",
        help="a Python, the folder of an environment, or the name of one of conda; with --create, "
        "the Python that it is made with",
    )
    add.add_argument(
        "--create",
        nargs="+",
        default=[],
        metavar="REQUIREMENT",
        help="make it, and install this there, such as 'tensorflow[and-cuda]>=2.21,<2.22'",
    )
    action("list", "list the environments")
    named("check", "ask an environment what it has, and say what it lacks")
    named("remove", "remove an environment; one that was made here is deleted")
    use = named("use", "let an environment train all recipes of a framework")
    use.add_argument(
        "--for",
        dest="frameworks",
        choices=("tensorflow", "torch"),
        action="append",
        help="may be given several times (default: what the environment has)",
    )


def _add_machines(parser: Parser, *parents: Parser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", parser_class=Parser)

    def action(name: str, about: str) -> Parser:
        found = actions.add_parser(name, help=about, description=about, parents=list(parents))
        if name != "list":
            found.add_argument("name", metavar="NAME", help="the name of the machine")
        return found

    added = action("add", "add a machine")
    added.add_argument(
        "destination",
        metavar="DESTINATION",
        help="what ssh understands: user@host, or an alias of its configuration",
    )
    added.add_argument(
        "--start",
        metavar="COMMAND",
        help="what starts Traindeck there, for its shell (default: traindeck)",
    )
    action("list", "list the machines")
    action("check", "connect to a machine, and say what it lacks")
    action("remove", "remove a machine from the list; nothing changes there")


def _add_cluster(parser: Parser, *parents: Parser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", parser_class=Parser)

    def action(name: str, about: str) -> Parser:
        return actions.add_parser(name, help=about, description=about, parents=list(parents))

    start = action("start", "begin a cluster with this machine as its head, or start it again")
    start.add_argument("--port", type=int, metavar="N", help="of the head; 0: any (default: 6379)")
    join = action("join", "join a cluster, or start the Ray node of this machine again")
    join.add_argument("address", metavar="HOST:PORT", nargs="?", default="", help="of the head")
    join.add_argument(
        "--token", default="", help="of the cluster; -: standard input (default: ask for it)"
    )
    for each in (start, join):
        each.add_argument(
            "--host",
            metavar="IP",
            default="",
            help="the address of this machine that the others use (default: that of the default "
            "route, or of the route to the head)",
        )
        each.add_argument(
            "--name", default="", help="of this machine in the cluster (default: that of the host)"
        )
        each.add_argument(
            "--ports",
            default="",
            metavar="FIRST-LAST",
            help="the ports of its Ray node besides the head's own (default: any)",
        )
        each.add_argument(
            "--keep", action="store_true", help="stay in the foreground, such as for systemd"
        )
    action("leave", "end the Ray node of this machine, and forget the cluster")
    action("stop", "end the cluster, on its head")
    action("status", "list the machines, and say what differs")


def _add_runs(parser: Parser) -> None:
    parser.add_argument(
        "--filter",
        default="",
        metavar="EXPRESSION",
        help="such as 'lr<1e-3 and val/accuracy>0.9 and tag:paper and created > -7d'",
    )
    parser.add_argument(
        "--sort", default="", metavar="COLUMN", help="such as lr, or -lr: the largest first"
    )
    parser.add_argument(
        "--columns", default="", metavar="LIST", help="columns with commas between them"
    )
    parser.add_argument("--csv", action="store_true", help="print CSV with exact values")


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


def _add_preflight(parser: Parser) -> None:
    parser.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    parser.add_argument("--strategy", metavar="NAME", help="a name (default: single)")
    parser.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    _add_environment(parser, "the Python that trains it", default="that of `env use`, or traindeck")
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="time for it (default: 60)"
    )
    _add_run_options(parser)


def _add_sweep(parser: Parser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=("start", "list", "show", "stop", "resume"),
        default="start",
        help="start a sweep (default), list all, show one, stop it, or let it go on",
    )
    parser.add_argument("number", nargs="?", default="", metavar="N", help="of the sweep")
    parser.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    parser.add_argument("--strategy", metavar="NAME", help="a name (default: single)")
    parser.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    parser.add_argument("--name", default="", help="name of its runs (default: that of the recipe)")
    parser.add_argument("--trials", type=int, metavar="N", help="runs (default: 20; grid: all)")
    parser.add_argument(
        "--sampler",
        choices=("tpe", "random", "grid"),
        default="tpe",
        help="how values are chosen: by what was good so far, at random, or all (default: tpe)",
    )
    parser.add_argument(
        "--pruner",
        choices=("none", "median", "successive-halving"),
        default="none",
        help="which runs end early, because others were better at that step (default: none)",
    )
    parser.add_argument(
        "--metric",
        default="",
        help="what is to be the best, such as accuracy or val/mae:min (default: validation/loss)",
    )
    parser.add_argument(
        "--parallel",
        type=int,
        default=1,
        metavar="N",
        help="runs at one time, which share the devices (default: 1)",
    )
    parser.add_argument(
        "--sampler-seed", type=int, default=0, metavar="N", help="of the sampler (default: 0)"
    )
    _add_environment(parser, "the Python of its runs", default="that of `env use`, or traindeck")
    _add_run_options(parser)


def _add_name(parser: Parser) -> None:
    parser.add_argument(
        "--name", default="", help="name of the run (default: that of its recipe or script)"
    )
    parser.add_argument(
        "--tag",
        dest="tags",
        action="append",
        default=[],
        metavar="TAG",
        help="a tag of the run, to search and group by; may be given several times",
    )


def _add_environment(parser: Parser, what: str, default: str = "the run's own") -> None:
    parser.add_argument(
        "--env",
        dest="environment",
        metavar="NAME|PATH",
        help=f"{what}: a name that `env list` shows, a Python, or the folder of an environment "
        f"(default: {default})",
    )


def _add_script_options(parser: Parser) -> None:
    """Add the flags of `run`."""
    from engine.cli.options import add_options
    from engine.spec.script_spec import DECIDED_BY_SCRIPT

    parser.usage = "%(prog)s [options] -- train.py ARGS"
    parser.add_argument(
        "script",
        metavar="-- COMMAND",
        nargs=argparse.REMAINDER,
        help="a script with its arguments, -m package.module, or any program",
    )
    parser.add_argument(
        "--devices", metavar="LIST", help=f"{DEVICES} (default: first GPU, else cpu:0)"
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help="how many processes: single, torchrun or tf_config (default: by what the script "
        "mentions)",
    )
    parser.add_argument(
        "--env",
        dest="environment",
        metavar="NAME|PATH",
        help="a Python, the folder of an environment, or the name of one: of conda, or beside the "
        "script (default: the Python of Traindeck)",
    )
    _add_variables(parser)
    parser.add_argument("--folder", metavar="DIR", help="where it runs (default: here)")
    _add_name(parser)
    parser.add_argument(
        "--no-output-figures",
        dest="output_figures",
        action="store_false",
        help="read no figures from its output, if it reports none otherwise",
    )
    add_options(parser, without=DECIDED_BY_SCRIPT)


def _add_variables(parser: Parser) -> None:
    parser.add_argument(
        "--var",
        dest="variables",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the script's environment; may be given several times. Values that look "
        "like secrets are not stored",
    )
    parser.add_argument(
        "--resume-with",
        metavar="ARGUMENTS",
        help="what a resume adds to the script's arguments, such as '--resume {latest}' with the "
        "newest checkpoint that the script itself has saved",
    )


def _named_machine(text: str) -> str:
    """Return `text`. Raises ArgumentTypeError if it is empty, which would mean this machine."""
    if not text.strip():
        raise argparse.ArgumentTypeError("needs the name of a machine, but got an empty one")
    return text


def _run(options: argparse.Namespace) -> int:
    """Carry out the command, by the engine of the machine that `--on` or `MACHINE:ID` names.

    The imports are in here, so that --help is quick.
    """
    if (code := _run_here(options)) is not None:
        return code
    from engine.cli.engines import named_runs, open_engine

    machine = options.machine
    if id := getattr(options, "id", ""):
        machine, (options.id,) = named_runs(machine, [id])
    elif ids := getattr(options, "ids", ()):
        machine, options.ids = named_runs(machine, ids)
    elif move := getattr(options, "move", None):
        machine, (run,) = named_runs(machine, move[:1])
        options.move = [run, *move[1:]]
    with open_engine(machine, _what_goes_on(options, machine)) as engine:
        return _run_with(engine, options)


def _what_goes_on(options: argparse.Namespace, machine: str) -> str:
    """Return what a command has begun there that does not end with the connection."""
    match options.command:
        case "train" | "run" | "resume" | "attach":
            return f"A run that was started there goes on: `{call('runs', machine)}` lists it."
        case "sweep" if options.action in ("start", "resume"):
            listed = call("sweep list", machine)
            return f"A sweep that was started there goes on: `{listed}` lists it."
        case "export":
            return "Nothing was exported."
        case "import":
            listed = call("runs", machine)
            return f"Whether the files were imported is not known: `{listed}` lists the runs there."
        case _:
            return ""


def _run_here(options: argparse.Namespace) -> int | None:
    """Carry out a command that is for this machine alone; None: it asks an engine."""
    match options.command:
        case "serve":
            from engine.cli.commands.serve import serve

            return serve(options.nonce)
        case "new-recipe":
            from engine.cli.commands.new_recipe import new_recipe

            return new_recipe(options.name, options.kind, json=options.json)
        case "machines":
            return _machines(options)
        case "cluster":
            return _cluster(options)
        case "recipes":
            from engine.cli.commands import listings

            return listings.recipes(json=options.json)
        case "desktop-entry":
            from engine.cli.commands import desktop_entry

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
            return None


def _run_with(engine: Engine, options: argparse.Namespace) -> int:
    """Carry out a command by an engine."""
    from engine.cli.commands import active_run, fsck, listings, queue, script, show, warm
    from engine.cli.commands.script import ScriptOptions
    from engine.cli.commands.train import resume, train
    from engine.cli.options import given_options

    match options.command:
        case "train" | "resume":
            if options.command == "train":
                return train(
                    engine,
                    options.recipe,
                    _run_options(options),
                    planned=options.planned,
                    detach=options.detach,
                    json=options.json,
                )
            return resume(
                engine,
                options.id,
                _run_options(options),
                checkpoint=options.checkpoint,
                as_new=options.as_new_run,
                recipe=options.recipe,
                detach=options.detach,
                json=options.json,
            )
        case "check":
            from engine.cli.commands.check import check

            return check(
                engine,
                options.recipe,
                _run_options(options),
                seconds=options.seconds,
                json=options.json,
            )
        case "race":
            return _race(engine, options)
        case "preflight":
            from engine.cli.commands.planning.preflight import preflight

            return preflight(
                engine,
                options.recipe,
                _run_options(options),
                seconds=options.seconds,
                json=options.json,
            )
        case "memory" | "batch-size":
            from engine.cli.commands.planning import memory

            ask = memory.memory if options.command == "memory" else memory.batch_size
            return ask(
                engine,
                options.recipe,
                _run_options(options),
                limit_mib=options.memory_limit,
                json=options.json,
            )
        case "run":
            script_options = ScriptOptions(
                devices=options.devices,
                strategy=options.strategy,
                environment=options.environment,
                variables=options.variables,
                folder=options.folder,
                name=options.name,
                tags=options.tags,
                resume_with=options.resume_with,
                output_figures=options.output_figures,
                fields=given_options(options),
            )
            return script.run(
                engine, options.script, script_options, detach=options.detach, json=options.json
            )
        case "runs":
            from engine.cli.commands.run_query import RunQuery

            query = RunQuery(options.filter, options.sort, options.columns, options.csv)
            return listings.runs(engine, query, json=options.json)
        case "queue" if options.move:
            return queue.move(engine, *options.move, json=options.json)
        case "queue":
            return queue.show(engine, json=options.json)
        case "show":
            return show.show(engine, options.id, json=options.json, diff=options.diff)
        case "attach":
            return active_run.attach(engine, options.id, json=options.json)
        case "stop":
            return active_run.stop(engine, options.id, now=options.now)
        case "checkpoint":
            return active_run.checkpoint(engine, options.id)
        case "checkpoints":
            from engine.cli.commands.checkpoints import checkpoints

            return checkpoints(engine, options.id, options.copy, options.output, json=options.json)
        case "pause":
            return active_run.pause(engine, options.id, free_devices=options.free_gpus)
        case "empty-cache":
            return active_run.empty_cache(engine, options.id)
        case "strategies":
            return listings.strategies(engine, json=options.json)
        case "devices":
            return listings.devices(engine, json=options.json)
        case "warm":
            return warm.switch(engine, options.choice, json=options.json)
        case "env":
            return _env(engine, options)
        case "sweep":
            return _sweep(engine, options)
        case "export":
            from engine.cli.commands.exchange import export_runs

            return export_runs(
                engine,
                options.ids,
                options.format,
                options.output,
                json=options.json,
            )
        case "import":
            from engine.cli.commands.exchange import columns_of, import_files

            return import_files(engine, options.paths, columns_of(options), json=options.json)
        case "fsck":
            return fsck.fsck(engine, options.ids, repair=options.repair, json=options.json)
        case "doctor":
            from engine.cli.commands.doctor import doctor

            return doctor(
                engine,
                json=options.json,
                full=options.full,
                environment=options.environment,
                output=options.output,
            )
        case _:
            raise AssertionError(options.command)


def _run_options(options: argparse.Namespace) -> RunOptions:
    """Return the options of a run, as far as the command has them."""
    from engine.cli.commands.train import RunOptions
    from engine.cli.options import given_options

    given = {name: value for name, value in vars(options).items() if name in RunOptions._fields}
    return RunOptions(
        **{"strategy": None, "name": None} | given | {"fields": given_options(options)}
    )


def _race(engine: Engine, options: argparse.Namespace) -> int:
    from engine.cli.commands.planning.race import RaceOptions, race_strategies

    run = _run_options(options)
    fields = {name: value for name, value in run.fields.items() if name != "steps"}
    chosen = RaceOptions(
        options.strategies,
        options.batch_sizes,
        options.precisions,
        options.device_counts,
        options.steps,
        options.side_by_side,
    )
    return race_strategies(
        engine, options.recipe, run._replace(fields=fields), chosen, json=options.json
    )


def _cluster(options: argparse.Namespace) -> int:
    """Carry out an action of `cluster`."""
    from engine.cli.commands.cluster import ClusterOptions, cluster

    given = {name: value for name, value in vars(options).items() if hasattr(ClusterOptions, name)}
    return cluster(options.action or "status", ClusterOptions(**given))


def _sweep(engine: Engine, options: argparse.Namespace) -> int:
    """Carry out an action of `sweep`."""
    from engine.cli.commands import sweep
    from engine.cli.output import Refused
    from engine.sweeps.proposal import DEFAULT_TRIALS, SweepOptions

    if options.action in ("show", "stop", "resume") and not options.number:
        raise Refused(f"Which sweep? `{call('sweep list', engine.machine)}` lists them.")
    match options.action:
        case "list":
            return sweep.show_all(engine, json=options.json)
        case "show":
            return sweep.show(engine, options.number, json=options.json)
        case "stop":
            return sweep.stop(engine, options.number)
        case "resume":
            return sweep.resume(engine, options.number, detach=options.detach, json=options.json)
    chosen = SweepOptions(
        sampler=options.sampler,
        trials=DEFAULT_TRIALS if options.trials is None else options.trials,
        whole_grid=options.trials is None,
        parallel=options.parallel,
        pruner=options.pruner,
        metric=options.metric,
        seed=options.sampler_seed,
    )
    return sweep.start(
        engine,
        options.recipe,
        _run_options(options),
        chosen,
        detach=options.detach,
        json=options.json,
    )


def _machines(options: argparse.Namespace) -> int:
    from engine.cli.commands import machines

    match options.action:
        case None | "list":
            return machines.show(json=options.json)
        case "add":
            return machines.add(options.name, options.destination, options.start, json=options.json)
        case "check":
            return machines.check(options.name, json=options.json)
        case "remove":
            return machines.remove(options.name, json=options.json)
        case _:
            raise AssertionError(options.action)


def _env(engine: Engine, options: argparse.Namespace) -> int:
    from engine.cli.commands import env

    match options.action:
        case "add":
            return env.add(engine, options.name, options.python, options.create, json=options.json)
        case "list":
            return env.show(engine, json=options.json)
        case "check":
            return env.check(engine, options.name, json=options.json)
        case "remove":
            return env.remove(engine, options.name, json=options.json)
        case "use":
            return env.use(engine, options.name, options.frameworks or (), json=options.json)
        case _:
            raise AssertionError(options.action)


if __name__ == "__main__":
    sys.exit(entry())
