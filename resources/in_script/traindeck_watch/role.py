"""Which process of a command is watched: the one that trains, not those that it starts."""

from __future__ import annotations

import enum
import fcntl
import os
import sys

LINK_VARIABLE = "TRAINDECK_LINK"
WATCHED_VARIABLE = "TRAINDECK_WATCHED"
"""The process that watched itself first; what it starts inherits this."""

_LAUNCHERS = frozenset(
    {
        "torchrun", "accelerate", "deepspeed", "horovodrun", "composer", "mpirun",
        "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic",
        "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
        "deepspeed.launcher.runner", "deepspeed.launcher.launch",
    }
)  # fmt: skip
_NEVER = frozenset(
    {
        "pip", "venv", "ensurepip", "virtualenv", "uv", "conda", "setuptools", "build",
        "compileall", "py_compile", "ninja", "cmake", "pytest", "tensorboard", "wandb", "jupyter",
        "torch._inductor.compile_worker", "torch._inductor.compile_worker.__main__",
        "torch._inductor.autotune_process", "triton", "nvitop", "gpustat",
    }
)  # fmt: skip
_DIGITS = 20
_HELPERS = ("resource_tracker", "semaphore_tracker", "multiprocessing.forkserver")


class Role(enum.Enum):
    """What a Python process is to the run."""

    NONE = "none"
    """It has nothing to do with the training."""

    LAUNCHER = "launcher"
    """It starts what trains, such as `torchrun`."""

    MAIN = "main"
    """It is the script, or a rank of it: it is watched from its start."""

    INNER = "inner"
    """A script started it. It is silent, unless it turns out that it trains."""


def of_this_process() -> Role:
    """Judge by the command line and the environment."""
    if not os.environ.get(LINK_VARIABLE):
        return Role.NONE
    kind, program = _program(_command_line())
    if kind == "c" and any(helper in program for helper in _HELPERS):
        return Role.NONE
    name = _name(kind, program)
    if name in _NEVER or "_inductor/compile_worker" in program:
        return Role.NONE
    if name in _LAUNCHERS:
        return Role.LAUNCHER
    if os.environ.get(WATCHED_VARIABLE) or (kind == "c" and "multiprocessing" in program):
        return Role.INNER
    return Role.MAIN


def folder_of_script() -> str:
    """The folder that Python puts in front of `sys.path` for the program; empty: none."""
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return ""
    kind, program = _program(_command_line())
    if kind != "file" or not program or program == "-":
        return os.getcwd()  # noqa: PTH109
    path = os.path.realpath(program)
    return path if os.path.isdir(path) else os.path.dirname(path)  # noqa: PTH112, PTH120


def link_rank() -> int:
    """The rank whose process of ours listens at the other end of the link."""
    return number("TRAINDECK_RANK", number("RANK", 0))


def claim_training() -> int | None:
    """Become the process that trains for this link; None if another one does so now.

    The claim is a locked descriptor: it ends with the process.
    """
    path = os.environ.get(LINK_VARIABLE, "") + ".trains"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return -1  # no place for a lock: then every process may train
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def steps_before(claim: int) -> int:
    """Return the steps that are done in the trainings that had the claim before this one."""
    if claim < 0:
        return 0
    try:
        return int(os.pread(claim, _DIGITS, 0) or b"0")
    except (OSError, ValueError):
        return 0


def steps_of_others() -> int:
    """Return the steps that a process with the claim has noted, or the last one that had it."""
    try:
        with open(os.environ.get(LINK_VARIABLE, "") + ".trains", "rb") as file:  # noqa: PTH123
            return steps_before(file.fileno())
    except OSError:
        return 0


def note_steps(claim: int, steps: int) -> None:
    """Leave the steps that are done to the next process that trains for this link."""
    if claim >= 0:
        os.pwrite(claim, b"%*d" % (_DIGITS, steps), 0)


def _command_line() -> list[str]:
    words = getattr(sys, "orig_argv", None)
    if words:
        return list(words)
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return [sys.executable, *sys.argv]


def _program(words: list[str]) -> tuple[str, str]:
    """Return "c", "m" or "file", and the code, the module or the path."""
    place = 1
    while place < len(words):
        word = words[place]
        if word.startswith("--"):
            place += 2 if word == "--check-hash-based-pycs" else 1
            continue
        if not word.startswith("-") or word == "-":
            return "file", word
        for number, letter in enumerate(word[1:], start=1):
            if letter in "cm":
                rest = word[number + 1 :]
                value = rest or (words[place + 1] if place + 1 < len(words) else "")
                return letter, value
            if letter in "WX":
                if not word[number + 1 :]:
                    place += 1
                break
        place += 1
    return "file", ""


def _name(kind: str, program: str) -> str:
    """The module, or the name of an installed command; empty for a file of the user."""
    if kind == "file":
        return "" if program.endswith(".py") else program.rsplit("/", 1)[-1]
    return program if kind == "m" else ""


def number(variable: str, otherwise: int) -> int:
    try:
        return int(os.environ.get(variable, ""))
    except ValueError:
        return otherwise
