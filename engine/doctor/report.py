"""The report of an examination: one text without secrets, and without names of the user."""

from __future__ import annotations

import getpass
import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.doctor.finding import Finding, finding_lines, problems_text
from engine.scripts.secrets import redacted, secret_values
from engine.system.program import version
from engine.system.units import date_and_time

_VARIABLES = re.compile(
    r"(CUDA|NCCL|NVIDIA|SLURM_(JOB|STEP|GPUS|NTASKS|CPUS)|XLA|PYTORCH|TORCH|OMP|KERAS)_\w*"
    r"|TF_(CPP|XLA|FORCE|ENABLE|DISABLE|GPU|CUDNN|NUM|DETERMINISTIC|USE)_\w*"  # TF_VAR: Terraform's
    r"|LD_LIBRARY_PATH|CC|CXX"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|_USER|_ADDR|HOST|NODE", re.IGNORECASE)
_SHORTEST_NAME = 3
"""Shorter names of users and machines are also parts of words."""


def report_text(
    checks: Iterable[Finding],
    parts: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    now: float = 0.0,
) -> str:
    """Return the report; `parts` are further texts by their heading.

    `environment` None: that of this process. `now`: seconds since the epoch; 0: not told.
    """
    environment = os.environ if environment is None else environment
    found = list(checks)
    variables = [
        f"{name}={value}"
        for name, value in sorted(environment.items())
        if _VARIABLES.fullmatch(name) and not _SECRET.search(name)
    ]
    when = f", {date_and_time(now)}" if now else ""
    sections = {
        f"Traindeck {version()}, doctor{when}": "\n".join(
            (
                f"Python {platform.python_version()}, {platform.platform()}",
                problems_text(found),
            )
        ),
        "Checks": "\n".join(map(finding_lines, found)),
        "Environment variables": "\n".join(variables) or "none that matter",
        **(parts or {}),
    }
    text = "\n\n".join(f"## {title}\n{body.rstrip()}" for title, body in sections.items())
    return discreet(redacted(text, secret_values(environment)), environment) + "\n"


def discreet(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return `text` with the home folder as `~`, and without the names of user and machine."""
    environment = os.environ if environment is None else environment
    try:
        home = str(Path.home())
    except RuntimeError:
        home = ""
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=[/\\:'\"\s,;)]|$)", "~", text)
    for name, stand_in in ((_user(environment), "USER"), (platform.node(), "MACHINE")):
        if len(name) >= _SHORTEST_NAME and name not in ("root", "localhost"):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", stand_in, text)
    return text


def _user(environment: Mapping[str, str]) -> str:
    if name := environment.get("USER") or environment.get("LOGNAME"):
        return name
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
