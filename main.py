"""Traindeck: opens the window, or does from a terminal what the window does."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

Action = Callable[[argparse.Namespace], int]
"""What a command does with its options; it imports what it needs, so that --help is quick."""


class Parser(argparse.ArgumentParser):
    """Complains in one sentence on standard error, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        message = message.replace("argument COMMAND: invalid choice: ", "There is no command ")
        match = re.fullmatch(r"argument ([^:]+): (.*)", message, re.DOTALL)
        text = f"{match[1]} {match[2]}" if match else message[0].upper() + message[1:]
        self.exit(2, f"{text.rstrip('.')}. `python {self.prog} --help` explains.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    for text in arguments:
        if not text.isprintable():
            parser.error(f"{text!r} is not an argument: it holds characters that cannot be shown")
    options = parser.parse_args(arguments)
    if options.action is None:
        return _open_window()
    from engine.cli.errors import guarded

    return guarded(lambda: options.action(options))


def _open_window() -> int:
    try:
        from gui.app import run
    except ImportError as error:
        print(
            f"The window cannot be opened: {error}. Train from the command line instead: "
            "see `python main.py train --help`.",
            file=sys.stderr,
        )
        return 2
    return run(sys.argv)


def _parser() -> Parser:
    parser = Parser(prog="main.py", description=__doc__, epilog="Without a command: the window.")
    parser.set_defaults(action=None)
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)

    def add(name: str, action: Action, about: str, *parents: Parser) -> Parser:
        command = commands.add_parser(name, help=about, description=about, parents=parents)
        command.set_defaults(action=action)
        return command

    one, json, detach = Parser(add_help=False), Parser(add_help=False), Parser(add_help=False)
    one.add_argument("id", metavar="ID", help="the run's number")
    json.add_argument("--json", action="store_true", help="the last line is JSON for a program")
    detach.add_argument("--detach", action="store_true", help="return once it has started")

    _add_wishes(add("train", _train, "start a run and follow it", json, detach))
    add("runs", _runs, "list the runs", json)
    queue = add("queue", _queue, "list who waits for which devices, or change the order", json)
    queue.add_argument(
        "--move", nargs=2, metavar=("ID", "WHERE"), help="move a waiting run up, down or first"
    )
    add("show", _show, "show one run", one, json)
    add("attach", _attach, "follow an active run; Ctrl-C leaves it alone", one, json)
    stop = add("stop", _stop, "save, then end a run", one)
    stop.add_argument("--now", action="store_true", help="end it at once, without saving")
    add("checkpoint", _checkpoint, "save a checkpoint now", one)
    pause = add("pause", _pause, "hold a run at its next step", one)
    pause.add_argument(
        "--free-gpus", action="store_true", help="move its model to the host's memory meanwhile"
    )
    resume = add("resume", _resume, "go on with a paused or ended run", one, json, detach)
    resume.add_argument("--checkpoint", metavar="NAME", help="where from (default: the newest)")
    resume.add_argument("--strategy", metavar="NAME", help="go on with another strategy")
    resume.add_argument("--devices", metavar="LIST", help=f"go on on others, {_DEVICES}")
    resume.add_argument("--name", help="what to call the run from now on")
    resume.add_argument(
        "--as-new-run", action="store_true", help="go on as a new run, and leave this one as it is"
    )
    _add_options(resume, "the run's own")
    add("empty-cache", _empty_cache, "have a run give unused memory back", one)
    add("strategies", _strategies, "list the strategies and whether they run here", json)
    add("devices", _devices, "list the devices of this machine", json)
    add("recipes", _recipes, "list the built-in recipes", json)
    record = add("record-gpus", _record_gpus, "save what the NVIDIA driver answers, for a report")
    record.add_argument("file", metavar="FILE", type=Path, help="where to save it, as JSON")
    pictures = add("screenshots", _screenshots, "save pictures of the window, of recorded runs")
    pictures.add_argument("folder", metavar="DIR", type=Path, help="where to save them")
    pictures.add_argument(
        "--only", default="*", metavar="PATTERN", help="such as 'running-*' or '*-1280x800'"
    )
    return parser


_DEVICES = "such as cpu:0,cpu:1 or gpu:0 or all-gpus or UUIDs"


def _add_wishes(train: Parser) -> None:
    train.add_argument("--recipe", default="digits", help="a name or a .py file (default: digits)")
    train.add_argument("--strategy", default="single", help="a name (default: single)")
    train.add_argument(
        "--devices", metavar="LIST", help=f"{_DEVICES} (default: first GPU, else cpu:0)"
    )
    train.add_argument("--name", default="", help="what to call the run")
    _add_options(train)


def _add_options(parser: Parser, default: str = "") -> None:
    """Flags for the settings of the recipe and for the fields of a spec."""
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


def _train(options: argparse.Namespace) -> int:
    from engine.cli.options import chosen
    from engine.cli.train import TrainOptions, train

    wishes = TrainOptions(
        recipe=options.recipe,
        strategy=options.strategy,
        devices=options.devices,
        name=options.name,
        settings=options.settings,
        options=chosen(options),
    )
    return train(wishes, detach=options.detach, json=options.json)


def _resume(options: argparse.Namespace) -> int:
    from engine.cli.options import chosen
    from engine.cli.train import From, resume

    start = From(
        checkpoint=options.checkpoint,
        strategy=options.strategy,
        devices=options.devices,
        name=options.name,
        settings=tuple(options.settings),
        options=chosen(options),
        as_new=options.as_new_run,
    )
    return resume(options.id, start, detach=options.detach, json=options.json)


def _runs(options: argparse.Namespace) -> int:
    from engine.cli.listings import runs

    return runs(json=options.json)


def _queue(options: argparse.Namespace) -> int:
    from engine.cli import queue

    if options.move:
        return queue.move(*options.move, json=options.json)
    return queue.show(json=options.json)


def _devices(options: argparse.Namespace) -> int:
    from engine.cli.listings import devices

    return devices(json=options.json)


def _strategies(options: argparse.Namespace) -> int:
    from engine.cli.listings import strategies

    return strategies(json=options.json)


def _recipes(options: argparse.Namespace) -> int:
    from engine.cli.listings import recipes

    return recipes(json=options.json)


def _show(options: argparse.Namespace) -> int:
    from engine.cli.show import show

    return show(options.id, json=options.json)


def _attach(options: argparse.Namespace) -> int:
    from engine.cli.commands import attach

    return attach(options.id, json=options.json)


def _stop(options: argparse.Namespace) -> int:
    from engine.cli.commands import stop

    return stop(options.id, now=options.now)


def _checkpoint(options: argparse.Namespace) -> int:
    from engine.cli.commands import checkpoint

    return checkpoint(options.id)


def _pause(options: argparse.Namespace) -> int:
    from engine.cli.commands import pause

    return pause(options.id, free_devices=options.free_gpus)


def _empty_cache(options: argparse.Namespace) -> int:
    from engine.cli.commands import empty_cache

    return empty_cache(options.id)


def _record_gpus(options: argparse.Namespace) -> int:
    from tools.record_gpus import record_gpus

    return record_gpus(options.file)


def _screenshots(options: argparse.Namespace) -> int:
    from tools.screenshots.pictures import take

    take(options.folder, options.only)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before `guarded` could see to it: imports take half a second
        sys.exit(130)
