"""Chooses which tests run: the push tier, or the night tier within a limit of time.

The night tier has the mark `nightly`. It runs when `-m` names the mark, or when a test is named
(`path::test`).
"""

from __future__ import annotations

import os
import time

import pytest

NIGHTLY = "nightly"
END_VARIABLE = "TRAINDECK_TESTS_END"
"""The environment variable: seconds since the epoch after which no test begins."""

NOT_REACHED = "not reached: the time for the tests was over"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the night tier, unless it is asked for."""
    if NIGHTLY in config.option.markexpr or any("::" in argument for argument in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker(NIGHTLY)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker(NIGHTLY)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip a test for which no time is left."""
    if time.time() > float(os.environ.get(END_VARIABLE, "inf")):
        pytest.skip(NOT_REACHED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that were not reached."""
    names = [
        report.nodeid
        for report in terminalreporter.getreports("skipped")
        if NOT_REACHED in str(report.longrepr)
    ]
    if names:
        terminalreporter.section(f"{len(names)} tests were not reached")
        for name in names:
            terminalreporter.write_line(name)
