"""Versions on two machines: what must be equal, what may differ, and what is said of it."""

from __future__ import annotations

from msgspec.structs import replace

from engine.cluster.versions import Versions, differences

HERE = Versions(
    python="3.11.7", ray="2.60.0", traindeck="0.1.0", torch="2.13.0+cpu", tensorflow="2.21.0"
)


def test_equal_machines_do_not_differ() -> None:
    found = differences(HERE, HERE, "head")
    assert found.refused == found.told == ()


def test_other_versions_are_refused_by_name() -> None:
    there = Versions(
        python="3.12.1", ray="2.60.1", traindeck="0.2.0", torch="2.13.1+cpu", tensorflow="2.20.0"
    )
    found = differences(HERE, there, "head")
    assert "Python is 3.11.7 here, and 3.12.1 on head." in found.refused
    assert len(found.refused) == 5
    assert found.told == ()


def test_another_build_and_a_last_number_of_python_are_told() -> None:
    found = differences(HERE, replace(HERE, python="3.11.9", torch="2.13.0+cu130"), "head")
    assert found.refused == ()
    assert found.told == (
        "Python is 3.11.7 here, and 3.11.9 on head.",
        "PyTorch is 2.13.0+cpu here, and 2.13.0+cu130 on head.",
    )


def test_a_framework_that_one_machine_lacks_is_told() -> None:
    without = replace(HERE, tensorflow="")
    assert differences(HERE, without, "head").told == (
        "TensorFlow 2.21.0 is on this machine, and not on head.",
    )
    assert differences(without, HERE, "head").told == (
        "TensorFlow 2.21.0 is on head, and not on this machine.",
    )
