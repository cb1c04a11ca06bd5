"""The spec of a run of a script: made from a command, and why it cannot run, in sentences."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.environments.activation import activated
from engine.environments.needs import interpreter_problem
from engine.files.regular_file import read_regular
from engine.processes.process import ON_POSIX, can_enter
from engine.scripts.command import (
    CommandProblem,
    command_words,
    is_python,
    launcher_in,
    script_of,
    search_path,
)
from engine.spec.local_modules import local_modules
from engine.spec.recipe_file import LARGEST_RECIPE, RecipeInfo, read_script
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from engine.spec.validation import Problem
from engine.telemetry.gpu_makers import GPU_VARIABLES

DECIDED_BY_SCRIPT = frozenset(
    {
        *("batch_size", "epochs", "learning_rate", "optimizer", "momentum", "weight_decay"),
        *("schedule", "warmup_steps", "accumulation", "clip_norm", "precision", "compile"),
        *("loader_workers", "backend", "cross_device", "memory_limit_mib", "microbatches"),
        *("gradient_norm", "deterministic", "workers_per_device", "steps", "on_oom", "seed"),
    }
)
"""Fields of a spec that describe a training of a recipe; a script trains as it was written."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_STRATEGY = frozenset(
    {
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("TF_CONFIG", *GPU_VARIABLES),
    }
)
_DISTRIBUTES = re.compile(
    rb"torch\.distributed|torch import distributed|init_process_group|LOCAL_RANK|\baccelerate\b"
    rb"|\blightning\b|pytorch_lightning|\btransformers\b|\bdeepspeed\b|DistributedDataParallel"
)
_MULTI_WORKER = re.compile(rb"MultiWorkerMirroredStrategy|TF_CONFIG")


def script_spec(
    command: Sequence[str],
    folder: Path,
    devices: tuple[str, ...],
    *,
    strategy: str = "",
    interpreter: str = "",
    variables: Mapping[str, str] | None = None,
    resume_arguments: str = "",
    output_figures: bool = True,
    name: str = "",
) -> RunSpec:
    """Return the spec of a run of `command` in `folder`, an absolute path.

    `strategy` is a full name; empty: `default_strategy`. `interpreter`: the path of a Python;
    empty: the one of Traindeck, or the one that the command names.
    """
    words = tuple(command)
    if words and is_python(words[0]) and not interpreter:
        interpreter = shutil.which(words[0]) or ""
    programs = search_path(activated(os.environ | dict(variables or {}), interpreter))
    found = script_of(words, folder, programs)
    script = Path(os.path.abspath(found))  # noqa: PTH100  # links stay
    recipe = read_script(script)
    if not name and script == Path(sys.executable) and "-m" in words[:-1]:
        name = words[words.index("-m") + 1]
    return RunSpec(
        recipe=str(script),
        strategy=strategy or default_strategy(words, recipe, devices),
        devices=devices,
        name=name,
        command=words,
        working_folder=str(folder),
        variables=dict(variables or {}),
        interpreter=interpreter,
        resume_arguments=resume_arguments,
        output_figures=output_figures,
    )


def default_strategy(command: Sequence[str], recipe: RecipeInfo, devices: tuple[str, ...]) -> str:
    """Return the strategy that fits a script best, by what its code mentions.

    One process if it does not seem to distribute itself: several would each train the whole model.
    """
    if len(devices) < 2 or Path(recipe.path).suffix != ".py" or launcher_in(command):
        return "script/single"
    code = _code(Path(recipe.path))
    if _MULTI_WORKER.search(code):
        return "script/tf_config"
    return "script/torchrun" if _DISTRIBUTES.search(code) else "script/single"


def resumes_by_calls(spec: RunSpec, recipe: RecipeInfo) -> bool:
    """Whether the calls of `traindeck` save and resume the script: they do in one process."""
    is_alone = spec.strategy == "script/single" or len(spec.devices) == 1
    return recipe.uses_calls and is_alone


def command_problems(spec: RunSpec, strategy: Strategy) -> list[Problem]:
    """Return every reason why the command of `spec` cannot be started now. It reads files."""
    if not ON_POSIX:
        return [Problem("", "Scripts run on Linux and macOS only: write a recipe here.")]
    found = []
    folder = Path(spec.working_folder or Path(spec.recipe).parent)
    if not folder.is_absolute() or not can_enter(folder):
        found.append(Problem("working_folder", f"There is no folder {folder}: choose another one."))
    elif problem := interpreter_problem(spec.interpreter):
        found.append(Problem("interpreter", problem))
    else:
        found += _problems_of_words(spec, folder)
    ranks = len(strategy.pool(spec.slots))
    if ranks > 1 and (launcher := launcher_in(spec.command)):
        text = (
            f"{launcher} starts the processes of all ranks itself, and {strategy.name} would start "
            f"it {ranks} times: leave it out of the command, or choose script/single."
        )
        found.append(Problem("strategy", text))
    found += _variable_problems(spec)
    if any("\0" in word for word in spec.command):
        found.append(Problem("command", "The command must not hold null characters."))
    if problem := _resume_problem(spec.resume_arguments):
        found.append(Problem("resume_arguments", problem))
    return found


def _problems_of_words(spec: RunSpec, folder: Path) -> list[Problem]:
    path = search_path(activated(os.environ | spec.variables, spec.interpreter))
    try:
        command_words(spec.command, folder, spec.interpreter or sys.executable, path)
    except CommandProblem as error:
        return [Problem("command", str(error))]
    return []


def _variable_problems(spec: RunSpec) -> list[Problem]:
    found = []
    secrets = dict.fromkeys(spec.secret_variables, "")  # their values are not in the spec
    for name, value in (secrets | spec.variables).items():
        text = ""
        if not _NAME.fullmatch(name):
            text = f"{name!r} is no name of a variable: it has letters, digits and _ only."
        elif "\0" in value:
            text = f"The variable {name} must not hold null characters."
        elif name in _OF_THE_STRATEGY or name.startswith("TRAINDECK_"):
            text = f"The variable {name} is set by the strategy and the devices: leave it out."
        if text:
            found.append(Problem("variables", text))
    return found


def _resume_problem(arguments: str) -> str:
    import shlex

    try:
        shlex.split(arguments)
    except ValueError as error:
        return f"The resume arguments {arguments!r} cannot be read: {error}."
    for name in re.findall(r"(?<!\$)\{(\w*)\}", arguments):
        if name != "latest":
            return f"The resume arguments know {{latest}} only, and not {{{name}}}."
    return ""


def _code(script: Path) -> bytes:
    """Return the code of a script and of the modules beside it that it imports."""
    try:
        content = read_regular(script, LARGEST_RECIPE, follow_links=True)
    except (OSError, ValueError):
        return b""
    return b"\n".join([content, *local_modules(script, content).values()])
