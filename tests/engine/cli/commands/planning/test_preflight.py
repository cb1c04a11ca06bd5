"""What the command `preflight` prints."""

from __future__ import annotations

from engine.cli.commands.planning.preflight import finding_lines, summary
from engine.planning.results import Change, Finding, Preflight
from engine.spec.run_spec import RunSpec

SLOW = Finding(
    name="sample loading",
    level="warning",
    text="Steps wait.",
    advice="Use 2 loader workers.",
    change=Change("Use 2 loader workers", {"loader_workers": 2}),
)


def test_a_finding_says_the_flag_of_its_change() -> None:
    assert finding_lines(SLOW) == (
        "warning  sample loading: Steps wait.\n"
        "         -> Use 2 loader workers. [--loader-workers 2]"
    )


def test_devices_and_switches_have_flags_too() -> None:
    change = Change("", {"devices": ["cpu:0", "cpu:1"], "compile": False})
    finding = Finding(name="devices", level="hint", text="Busy.", change=change)
    assert finding_lines(finding).endswith("-> [--devices cpu:0,cpu:1 --no-compile]")


def test_what_is_fine_is_one_line() -> None:
    found = Finding(name="clock", level="ok", text="It goes.")
    assert finding_lines(found) == "ok       clock: It goes."


def test_the_summary_counts() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    found = Preflight(spec=spec, findings=(SLOW, SLOW), seconds=12.34)
    assert summary(found) == ("0 problems, 2 warnings, 0 hints; it took 12.3 s. No run was stored.")
