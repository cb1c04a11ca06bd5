"""Reads whether the frameworks of a run can use GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from engine.environments.gpu_builds import gpu_problem
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from engine.spec.validation import Problem
from engine.telemetry.gpu_makers import gpu_maker


def build_problems(spec: RunSpec, strategy: Strategy, found: Iterable[Problem]) -> list[Problem]:
    """Return that the framework of the run cannot use the chosen GPUs, unless a problem of the
    devices was `found` before."""
    if all_on_cpu(spec.devices) or any(problem.field == "devices" for problem in found):
        return []
    text = gpu_problem(strategy.framework, spec.interpreter, gpu_maker(spec.devices[0]))
    return [Problem("devices", text)] if text else []
