"""The flags of every command, and the function that each of them calls."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from engine.cli.options import add_options
from engine.spec.catalog import template_kinds
from engine.spec.script_spec import DECIDED_BY_SCRIPT
from engine.system.program import program_words

_DEVICES = "such as cpu:0,cpu:1 or gpu:0 or all-gpus or UUIDs"
_FIRST = "default: first GPU, else cpu:0"


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
            print_refusal(text)
        self.exit(2, f"{text}\n")


def print_refusal(text: str) -> None:
    """Print what `engine.cli.output.refusal_as_json` does, without its imports."""
    print(json.dumps({"state": "refused", "problems": [{"field": "", "text": text}]}))


def make_parser(about: str) -> Parser:
    """Return the parser of the program; `about` says what that does."""
    log = _shared(default=argparse.SUPPRESS)
    log.add_argument(
        "--log-level",
        metavar="LEVEL",
        help="debug, info, warning or error: log to files (default: $TRAINDECK_LOG, else no log)",
    )
    parser = Parser(
        prog=" ".join(program_words()),
        description=about,
        epilog="Without a command, the window opens.",
        parents=[log],
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)

    def add(name: str, function: str, about: str, *parents: Parser) -> Parser:
        command = commands.add_parser(name, help=about, description=about, parents=[*parents, log])
        command.set_defaults(command=name, function=_path(function))
        return command

    json, there, run = _shared(), _shared(default=argparse.SUPPRESS), _shared()
    json.add_argument("--json", action="store_true", help="the last line is JSON for a program")
    there.add_argument(
        "--on",
        dest="machine",
        type=_named_machine,
        metavar="MACHINE",
        help="do it on another machine: a name that `machines` shows, or what ssh understands",
    )
    run.add_argument("run_id", metavar="ID", help="the run's number; MACHINE:ID on another machine")
    _add_training(add, json, there, run)
    _add_runs(add, json, there, run)
    about = "list the strategies, and whether this machine can run them"
    add("strategies", "listings:strategies", about, json, there)
    about = "list the devices of this machine, and the frameworks that are loaded"
    add("devices", "listings:devices", about, json, there)
    about = "keep frameworks loaded, so that runs start at once, or do not"
    warm = add("warm", "warm:switch", about, json, there)
    warm.add_argument("choice", nargs="?", choices=["on", "off"], metavar="on|off")
    add("recipes", "listings:recipes", "list the built-in recipes", json)
    about = "the Pythons that runs can use: add, make, list, check, remove"
    _add_env(_actions(add("env", "", about, there), log, json, there, required=True))
    about = "other machines, over SSH: add, list, check, remove"
    _add_machines(_actions(add("machines", "machines:show", about, json), log, json))
    about = "machines that train one run together: start, join, leave"
    _add_cluster(_actions(add("cluster", "cluster:cluster", about, json), log, json))
    _add_upkeep(add, json, there)
    return parser


_Add = Callable[..., Parser]
"""Adds a command or an action: its name, its function, what it does, what it shares."""


def _shared(default: object = None) -> Parser:
    """Return flags that several commands have."""
    return Parser(add_help=False, argument_default=default)


def _path(function: str) -> str:
    """Return the import path of a function of `engine.cli.commands`, or of the tools."""
    return function if function.startswith("tools.") else f"engine.cli.commands.{function}"


def _actions(command: Parser, *parents: Parser, required: bool = False) -> _Add:
    """Return what adds an action to `command`."""
    actions = command.add_subparsers(
        metavar="ACTION", dest="action", required=required, parser_class=Parser
    )

    def add(name: str, function: str, about: str) -> Parser:
        action = actions.add_parser(name, help=about, description=about, parents=list(parents))
        action.set_defaults(function=_path(function))
        return action

    return add


def _add_training(add: _Add, json: Parser, there: Parser, run: Parser) -> None:
    """Add the commands that train, or measure what training would meet."""
    detach, recipe, strategy, options = _shared(), _shared(), _shared(), _shared()
    detach.add_argument("--detach", action="store_true", help="return once it has started")
    recipe.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    strategy.add_argument("--strategy", metavar="NAME", help="a name (default: single)")
    options.add_argument("--devices", metavar="LIST", help=f"{_DEVICES} ({_FIRST})")
    _add_environment(options, "the Python that trains it", "that of `env use`, or traindeck")
    _add_settings(options)
    usual = recipe, strategy, options, json, there

    train = add("train", "train:train", "start a run and follow it", *usual, detach)
    _add_name(train)
    train.add_argument(
        "--planned",
        type=int,
        metavar="N",
        help="keep with it what `race` or `preflight` measured before, by number",
    )
    about = "run a script or any command as it is, and follow it"
    _add_script(add("run", "script:run", about, json, detach, there))
    about = "try a recipe on one batch, and say what is found"
    check = add("check", "check:check", about, strategy, options, json, there)
    check.add_argument("recipe", metavar="RECIPE", help="a name or a .py file")
    check.add_argument(
        "--seconds", type=float, default=120.0, metavar="S", help="time for it (default: 120)"
    )
    about = "some steps with each strategy: which is the fastest?"
    _add_race(add("race", "planning.race:race_strategies", about, recipe, options, json, there))
    about = "measure for a minute what a run would meet, and say what to change"
    preflight = add("preflight", "planning.preflight:preflight", about, *usual)
    preflight.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="time for it (default: 60)"
    )
    for name, function, about in (
        ("memory", "memory", "predict the peak memory of a run before it starts"),
        ("batch-size", "batch_size", "search the largest batch that fits, and the fastest"),
    ):
        add(name, f"planning.memory:{function}", about, *usual).add_argument(
            "--memory-limit",
            dest="limit_mib",
            type=int,
            default=0,
            metavar="MIB",
            help="memory of all CPU devices together (default: what the machine has free)",
        )
    about = "many runs that differ in some settings"
    _add_sweep(add("sweep", "sweep:sweep", about, *usual, detach))
    about = "continue a paused or ended run"
    _add_resume(add("resume", "train:resume", about, run, json, detach, there))


def _add_race(parser: Parser) -> None:
    """Add what a race varies."""
    race = parser.add_argument_group("the race")
    for flag, name, default, about in (
        ("--strategies", "strategies", "all", "such as ddp,fsdp (default: all)"),
        ("--batch-sizes", "batch_sizes", "", "global batches, such as 64,128"),
        ("--precisions", "precisions", "", "such as fp32,bf16"),
        ("--device-counts", "counts", "", "how many of them, such as 1,2,4 (default: all)"),
    ):
        race.add_argument(flag, dest=name, default=default, metavar="LIST", help=about)
    race.add_argument(
        "--side-by-side",
        action="store_true",
        help="as many at one time as there are devices (default: one after the other)",
    )


def _add_runs(add: _Add, json: Parser, there: Parser, run: Parser) -> None:
    """Add the commands for runs that there are."""
    about = "list the runs: filtered, sorted, with chosen columns"
    listed = add("runs", "listings:runs", about, json, there)
    listed.add_argument(
        "--filter",
        default="",
        metavar="EXPRESSION",
        help="such as 'lr<1e-3 and val/accuracy>0.9 and tag:paper and created > -7d'",
    )
    listed.add_argument(
        "--sort", default="", metavar="COLUMN", help="such as lr, or -lr: the largest first"
    )
    listed.add_argument(
        "--columns", default="", metavar="LIST", help="columns with commas between them"
    )
    listed.add_argument("--csv", action="store_true", help="print CSV with exact values")
    about = "list the runs that wait for devices, or change their order"
    queue = add("queue", "runs.queue:queue", about, json, there)
    queue.add_argument(
        "--move", nargs=2, metavar=("ID", "WHERE"), help="move a waiting run up, down or first"
    )
    show = add(
        "show", "runs.show:show", "show one run, and what it was started with", run, json, there
    )
    show.add_argument(
        "--diff", action="store_true", help="print the changes of its code that were not committed"
    )
    about = "follow an active run; Ctrl-C does not stop it"
    add("attach", "runs.active_run:attach", about, run, json, there)
    stop = add("stop", "runs.active_run:stop", "save, then end a run", run, there)
    stop.add_argument("--now", action="store_true", help="end it at once, without saving")
    add("checkpoint", "runs.active_run:checkpoint", "save a checkpoint now", run, there)
    about = "train a step of a run again, and say whether it is the same"
    replayed = add("replay", "planning.replay:replay", about, run, json, there)
    replayed.add_argument(
        "--step",
        metavar="N",
        default="auto",
        help="its number, or 'auto': the one that looks wrong (default: auto)",
    )
    replayed.add_argument(
        "--keep-checkpoint",
        dest="keeps_checkpoint",
        action="store_true",
        help="give the run, which is over, a checkpoint of the step, to go on from there",
    )
    about = "say where two runs begin to differ: step, layer, and why"
    compared = add("diverge", "planning.diverge:diverge", about, json, there)
    compared.add_argument("run_ids", nargs=2, metavar="ID", help="the numbers of the two runs")
    about = "list the checkpoints, or copy one"
    copied = add("checkpoints", "runs.checkpoints:checkpoints", about, run, json, there)
    copied.add_argument(
        "--copy",
        dest="copied",
        metavar="NAME",
        help="copy this one, or the 'newest', and compare its checksums",
    )
    copied.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="the new folder of the copy (default: a name made from run and checkpoint, here)",
    )
    pause = add("pause", "runs.active_run:pause", "pause a run at its next step", run, there)
    pause.add_argument(
        "--free-gpus",
        dest="free_devices",
        action="store_true",
        help="move its model to the host's memory meanwhile",
    )
    about = "free unused memory of a run's devices"
    add("empty-cache", "runs.active_run:empty_cache", about, run, there)


def _add_resume(parser: Parser) -> None:
    """Add what a resume changes."""
    parser.add_argument(
        "--checkpoint", metavar="NAME", help="checkpoint, or 'beginning' (default: newest)"
    )
    parser.add_argument("--strategy", metavar="NAME", help="continue with another strategy")
    parser.add_argument("--devices", metavar="LIST", help=f"continue on other devices, {_DEVICES}")
    parser.add_argument("--name", help="new name of the run")
    parser.add_argument(
        "--as-new-run",
        dest="as_new",
        action="store_true",
        help="continue as a new run, and keep this one",
    )
    parser.add_argument(
        "--recipe",
        choices=("as-it-was", "as-it-is-now"),
        help="if the recipe has changed: go on with the run's copy of it, or with the changed file "
        "(default: ask; without a terminal, as-it-was)",
    )
    _add_environment(parser, "continue with the Python of another environment", "the run's own")
    _add_variables(parser)
    _add_settings(parser, "the run's own")


def _add_script(parser: Parser) -> None:
    """Add the flags of `run`."""
    parser.usage = "%(prog)s [options] -- train.py ARGS"
    parser.add_argument(
        "script",
        metavar="-- COMMAND",
        nargs=argparse.REMAINDER,
        help="a script with its arguments, -m package.module, or any program",
    )
    parser.add_argument("--devices", metavar="LIST", help=f"{_DEVICES} ({_FIRST})")
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


def _add_sweep(parser: Parser) -> None:
    """Add how a sweep chooses its runs."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("start", "list", "show", "stop", "resume"),
        default="start",
        help="start a sweep (default), list all, show one, stop it, or let it go on",
    )
    parser.add_argument("number", nargs="?", default="", metavar="N", help="of the sweep")
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


def _add_name(parser: Parser) -> None:
    """Add the name and the tags of a run."""
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


def _add_environment(parser: Parser, what: str, default: str) -> None:
    parser.add_argument(
        "--env",
        dest="environment",
        metavar="NAME|PATH",
        help=f"{what}: a name that `env list` shows, a Python, or the folder of an environment "
        f"(default: {default})",
    )


def _add_variables(parser: Parser) -> None:
    parser.add_argument(
        "--var",
        dest="variables",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the script's environment; may be given several times. Without a value, "
        "that of this terminal. Only values of CUDA_*, OMP_*, NCCL_* and the like are stored; a "
        "resume asks for others",
    )
    parser.add_argument(
        "--stored-var",
        dest="stored_variables",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable like those of --var, whose value is stored with the run",
    )
    parser.add_argument(
        "--resume-with",
        metavar="ARGUMENTS",
        help="what a resume adds to the script's arguments, such as '--resume {latest}' with the "
        "newest checkpoint that the script itself has saved",
    )


def _add_settings(parser: Parser, default: str = "") -> None:
    """Add the flags for the settings of the recipe and for the fields of a spec."""
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the recipe; may be given several times",
    )
    add_options(parser, default)


def _named_machine(text: str) -> str:
    """Return `text`. Raises ArgumentTypeError if it is empty, which would mean this machine."""
    if not text.strip():
        raise argparse.ArgumentTypeError("needs the name of a machine, but got an empty one")
    return text


def _add_env(action: _Add) -> None:
    """Add the actions of `env`."""

    def named(name: str, about: str) -> Parser:
        found = action(name, f"env:{name}", about)
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
        dest="requirements",
        nargs="+",
        default=[],
        metavar="REQUIREMENT",
        help="make it, and install this there, such as 'tensorflow[and-cuda]>=2.21,<2.22'",
    )
    action("list", "env:show", "list the environments")
    named("check", "ask an environment what it has, and say what it lacks")
    named("remove", "remove an environment; one that was made here is deleted")
    use = named("use", "let an environment train all recipes of a framework")
    use.add_argument(
        "--for",
        dest="frameworks",
        choices=("tensorflow", "torch"),
        action="append",
        default=[],
        help="may be given several times (default: what the environment has)",
    )


def _add_machines(action: _Add) -> None:
    """Add the actions of `machines`."""

    def named(name: str, about: str) -> Parser:
        found = action(name, f"machines:{name}", about)
        found.add_argument("name", metavar="NAME", help="the name of the machine")
        return found

    added = named("add", "add a machine")
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
    action("list", "machines:show", "list the machines")
    named("check", "connect to a machine, and say what it lacks")
    named("remove", "remove a machine from the list; nothing changes there")


def _add_cluster(action: _Add) -> None:
    """Add the actions of `cluster`."""
    start = action(
        "start",
        "cluster:cluster",
        "begin a cluster with this machine as its head, or start it again",
    )
    start.add_argument("--port", type=int, metavar="N", help="of the head; 0: any (default: 6379)")
    join = action(
        "join", "cluster:cluster", "join a cluster, or start the Ray node of this machine again"
    )
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
    action("leave", "cluster:cluster", "end the Ray node of this machine, and forget the cluster")
    action("stop", "cluster:cluster", "end the cluster, on its head")
    action("status", "cluster:cluster", "list the machines, and say what differs")


def _add_upkeep(add: _Add, json: Parser, there: Parser) -> None:
    """Add the commands for files, and for this machine."""
    about = "write a commented recipe that trains as it is"
    recipe = add("new-recipe", "new_recipe:new_recipe", about, json)
    recipe.add_argument(
        "name", nargs="?", default="recipe.py", metavar="NAME", help="(default: recipe.py)"
    )
    recipe.add_argument(
        "--for", dest="kind", choices=template_kinds(), default="torch", help="(default: torch)"
    )
    about = "write runs for other programs"
    exported = add("export", "runs.exchange:export_runs", about, json, there)
    exported.add_argument(
        "run_ids", metavar="RUN", nargs="+", help="a run's number; all: every run"
    )
    exported.add_argument(
        "--format",
        choices=("csv", "html", "parquet", "tensorboard"),
        required=True,
        help="csv, parquet: two tables, of points and of runs; html: one page about a run, "
        "or a comparison of several; tensorboard: event files",
    )
    exported.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=Path,
        help="the new folder or page (default: a name made from the runs, here)",
    )
    about = "make runs of TensorBoard logs and CSV files"
    imported = add("import", "runs.exchange:import_files", about, json, there)
    imported.add_argument(
        "files",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a folder with TensorBoard logs, an event file, a CSV file, or a folder with those",
    )
    columns = imported.add_argument_group("columns of a CSV file", "where its header does not tell")
    for name, what in (
        ("step", "the step"),
        ("time", "the time of a point: seconds since 1970, or a date and time"),
        ("series", "the name of the series, if each line is one point"),
        ("value", "the value"),
        ("run", "the name of the run, if a file has several"),
    ):
        columns.add_argument(
            f"--{name}-column",
            dest=name,
            metavar="NAME",
            default="",
            help=f"the column with {what}",
        )
    about = "show a failure file as a run that is over, in the window"
    opened = add("open", "runs.exchange:open_case", about, json)
    opened.add_argument(
        "file", metavar="FILE", type=Path, help="the failure.tdcase of a run, from any machine"
    )
    opened.set_defaults(opened=[])  # gets the number of its run, which the window shows
    fsck = add("fsck", "fsck:fsck", "check the files of runs, and mend them", json, there)
    fsck.add_argument(
        "run_ids", metavar="ID", nargs="*", help="a run's number (default: everything)"
    )
    fsck.add_argument("--repair", action="store_true", help="mend what can be mended")
    about = "check whether this machine can train, and say what to do"
    doctor = add("doctor", "doctor:doctor", about, json, there)
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
    about = "what another Traindeck starts here over SSH; not for people"
    serve = add("serve", "serve:serve", about)
    serve.add_argument("nonce", metavar="NONCE", help="what its first line ends with")
    about = "add Traindeck to this user's menu of applications (Linux)"
    desktop = add("desktop-entry", "desktop_entry:desktop_entry", about)
    desktop.add_argument("--remove", action="store_true", help="remove it from the menu")
