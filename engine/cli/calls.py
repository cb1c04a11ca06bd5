"""Calls the function of a command: each of its parameters is the flag of the same name."""

from __future__ import annotations

import importlib
from argparse import Namespace
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, get_type_hints

from engine.cli.engines import named_runs, open_engine
from engine.cli.options import given_options
from engine.system.program import call

_STRUCTURES = ("_fields", "__struct_fields__", "__dataclass_fields__")
"""What a class has that several flags are made into: a named tuple, a struct, a dataclass."""


def call_command(options: Namespace) -> int:
    """Carry out a command, by the engine of the machine that `--on` or `MACHINE:ID` names.

    Raises Refused, and what the command raises.
    """
    command, given = function_of(options.function), vars(options)
    if "engine" not in signature(command).parameters:
        return int(command(**arguments_of(command, given)))
    machine = options.machine
    if "run_id" in given:
        machine, (options.run_id,) = named_runs(machine, [options.run_id])
    elif given.get("run_ids"):
        machine, options.run_ids = named_runs(machine, options.run_ids)
    elif given.get("move"):
        machine, (run,) = named_runs(machine, options.move[:1])
        options.move = [run, *options.move[1:]]
    with open_engine(machine, _what_goes_on(options, machine)) as engine:
        return int(command(engine, **arguments_of(command, given)))


def function_of(path: str) -> Callable[..., Any]:
    """Return the function that `module:function` names; only then its module is imported."""
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def arguments_of(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `function`: the flags of their names, alone or as one structure."""
    hints, found = get_type_hints(function), dict[str, Any]()
    for name, parameter in signature(function).parameters.items():
        kind = hints.get(name, parameter.annotation)
        if name == "fields":
            found[name] = given_options(given)
        elif any(hasattr(kind, mark) for mark in _STRUCTURES):
            found[name] = kind(**arguments_of(kind, given))
        elif name in given:
            found[name] = given[name]
    return found


def _what_goes_on(options: Namespace, machine: str) -> str:
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
