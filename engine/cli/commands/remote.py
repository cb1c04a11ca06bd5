"""A command on another machine: it runs there, and what it needs of this machine goes with it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from engine.cli import on_machine, transfers
from engine.cli.commands import checkpoints, doctor, exchange, script
from engine.cli.output import err
from engine.remote.machines import RemoteMachine, run_reference
from engine.system.program import MEASURES, call

WITH_RECIPE = ("train", "check", "sweep", *MEASURES)
"""Commands whose recipe is one of this machine; it is sent."""


def carry_out(machine: RemoteMachine, options: argparse.Namespace, arguments: list[str]) -> int:
    """Carry out a command there; `arguments` are those that it would have there.

    Raises Refused, NoAnswer, UnknownName.
    """
    sent = None
    match options.command:
        case "export":
            ids = [run_reference(text)[1] for text in options.ids]
            return exchange.export_from(
                machine, ids, options.format, options.output, json=options.json
            )
        case "checkpoints":
            return checkpoints.checkpoints(
                run_reference(options.id)[1],
                options.copy,
                options.output,
                machine,
                json=options.json,
            )
        case "import":
            columns = exchange.columns_of(options)
            return exchange.import_to(machine, options.paths, columns, json=options.json)
        case "doctor" if options.full:
            return _examine(machine, options.output, arguments)
        case command if command in WITH_RECIPE and getattr(options, "action", "start") == "start":
            recipe = transfers.recipe_there(machine, options.recipe)
            if recipe != options.recipe:
                flag = "" if command == "check" else "--recipe"
                arguments = on_machine.replaced(arguments, flag, options.recipe, recipe)
                sent = (options.recipe, recipe) if command in MEASURES else None
        case "run":
            script.tell_of_input()
            if not options.folder:
                arguments = _with_script(machine, options.script, arguments)
    return on_machine.run_there(
        machine,
        arguments,
        _what_goes_on(machine, options),
        sent=sent,
        while_connected=options.command in MEASURES,
    )


def _what_goes_on(machine: RemoteMachine, options: argparse.Namespace) -> str:
    """Return what a command has begun there that does not end with the connection."""
    match options.command:
        case "train" | "run" | "resume" | "attach":
            listed = call(f"runs --on {machine.name}")
            return f"A run that was started there goes on: `{listed}` lists it."
        case "sweep" if options.action in ("start", "resume"):
            listed = call(f"sweep list --on {machine.name}")
            return f"A sweep that was started there goes on: `{listed}` lists it."
        case "env" if options.action == "add" and options.create:
            listed = call(f"env list --on {machine.name}")
            return f"An environment that is being made there goes on: `{listed}` lists it then."
        case _:
            return ""


def _with_script(machine: RemoteMachine, words: Sequence[str], arguments: list[str]) -> list[str]:
    """Return the arguments of `run` there; the script that they start is sent."""
    command = list(words[1:] if words[:1] == ["--"] else words)
    folder, command_there = transfers.script_there(machine, command)
    if not folder:
        return arguments
    before = arguments[: len(arguments) - len(words)]
    return [*before, "--folder", folder, "--", *command_there]


def _examine(machine: RemoteMachine, output: Path | None, arguments: list[str]) -> int:
    """Let `doctor --full` write its file there, and fetch it."""
    target = (output or doctor.new_report()).expanduser().absolute()
    if output is not None:
        arguments = on_machine.without_value(arguments, ("-o", "--output"), str(output))
    with transfers.report_from(machine, target) as file:
        code = on_machine.run_there(machine, [*arguments, "--output", file])
    if output is None and target.exists():
        err().print(doctor.about_report(target), soft_wrap=True)
    return code
