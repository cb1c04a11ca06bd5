"""Asks the Python of an environment what it is, in processes of its own with a time limit."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.environments import needs
from engine.environments.activation import activated, environment_folder
from engine.environments.installed import Installed, installed_for
from engine.environments.needs import TITLES, interpreter_problem
from engine.environments.registry import Facts
from engine.processes.process import PROJECT
from engine.system.cancelled import Cancelled
from engine.system.program_output import TooLate, output_of

PROBE = PROJECT / "resources" / "in_environment" / "probe.py"

PYTHON_SECONDS = 20.0
IMPORT_SECONDS = 120.0
"""Longest time for the import of a framework, which a slow disk makes slow."""


def check(
    python: Path,
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    import_seconds: float = IMPORT_SECONDS,
) -> Facts:
    """Return what the environment of `python` is: its version, its frameworks, what they see.

    It takes seconds, as it imports each framework in a process of its own. `is_cancelled` ends it
    early, with what is known then.
    """
    now = time.time()
    if problem := interpreter_problem(str(python)):
        return Facts(problems=(problem,), checked=now)
    answer = ask(python, "python", PYTHON_SECONDS, is_cancelled)
    if problem := answer.get("problem", ""):
        return Facts(problems=(f"{python} does not work as a Python: {problem}",), checked=now)
    version = str(answer["version"])
    installed = Installed(Path(str(entry)) for entry in answer["path"])
    problems = _version_problems(python, version)
    if tuple(map(int, version.split(".")[:2])) < needs.OLDEST_FOR_SCRIPTS:
        return Facts(problems=tuple(problems), checked=now)
    notices = needs.untested(installed)
    if mix := installed.mix_problem():
        problems.append(mix)
    versions, cuda, gpus = _installed_frameworks(installed), {}, {}
    for framework in list(versions):
        if is_cancelled():
            break
        answer = ask(python, framework, import_seconds, is_cancelled)
        if problem := answer.get("problem", ""):
            title = TITLES[framework]
            problems.append(f"{title} {versions[framework]} cannot be used there: {problem}")
            continue
        versions[framework] = str(answer["version"])
        cuda[framework] = str(answer["cuda"])
        gpus[framework] = int(answer["gpus"])
        lacking = needs.missing(installed, needs.needs_of(framework))
        if text := needs.missing_problem(python, lacking):
            problems.append(text)
    if not versions:
        notices.append(
            f"The environment {environment_folder(python)} has neither PyTorch nor TensorFlow: "
            "scripts run in it, and recipes do not."
        )
    return Facts(version, versions, cuda, gpus, tuple(problems), tuple(notices), now)


def own_facts() -> Facts:
    """Return what Traindeck's own Python has, from its files: it imports no framework here."""
    installed = installed_for()
    cuda = {"torch": installed.torch.cuda} if installed.torch else {}
    if installed.tensorflow and installed.tensorflow.libraries:
        cuda["tensorflow"] = installed.tensorflow.cuda
    mix = installed.mix_problem()
    return Facts(
        platform.python_version(),
        _installed_frameworks(installed),
        cuda,
        problems=(mix,) if mix else (),
    )


def ask(
    python: Path, what: str, seconds: float, is_cancelled: Callable[[], bool] = lambda: False
) -> Mapping[str, Any]:
    """Return what `python` tells about `what`: itself, or a framework, which it imports.

    See `resources/in_environment/probe.py`. The key `problem` has a sentence if that failed.
    """
    inherited = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    try:
        answer = output_of(
            [str(python), str(PROBE), what],
            seconds=seconds,
            is_cancelled=is_cancelled,
            env=activated(inherited, str(python)),
            cwd=PROBE.parent,
        )
    except OSError as error:
        return {"problem": f"it cannot be started ({error.strerror or error})."}
    except (TooLate, Cancelled):
        return {"problem": f"it did not answer within {seconds:.0f} s."}
    for line in reversed(answer.printed.splitlines()):
        with contextlib.suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line, type=dict[str, Any])
            if found.get("traindeck") == what:
                return found
    last = (answer.printed + answer.said).decode("utf-8", "replace").strip().splitlines()[-1:]
    return {"problem": f"{(last or [f'it ended with the code {answer.code}'])[0].rstrip('.')}."}


def _version_problems(python: Path, version: str) -> list[str]:
    parts = tuple(map(int, version.split(".")[:2]))
    folder = environment_folder(python)
    if parts < needs.OLDEST_FOR_SCRIPTS:
        return [
            f"The environment {folder} has Python {version}; recipes need 3.11 or newer, and "
            "scripts 3.9 or newer: choose another one."
        ]
    if parts < needs.OLDEST_FOR_RECIPES:
        return [
            f"The environment {folder} has Python {version}: it runs scripts only; recipes need "
            "Python 3.11 or newer."
        ]
    return []


def _installed_frameworks(installed: Installed) -> dict[str, str]:
    found = {}
    if installed.torch:
        found["torch"] = installed.torch.version
    if installed.tensorflow:
        found["tensorflow"] = installed.tensorflow.version
    return found
