"""Versions on two machines: what must be equal, what may differ, and what is said of it."""

from __future__ import annotations

from msgspec.structs import replace

from engine.cluster.versions import Versions, differences
from tests.support.sentences import sentence

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
    assert sentence("python-is-here-and-on-head", version="3.12.1") in found.refused
    assert len(found.refused) == 5
    assert found.told == ()


def test_another_build_and_a_last_number_of_python_are_told() -> None:
    found = differences(HERE, replace(HERE, python="3.11.9", torch="2.13.0+cu130"), "head")
    assert found.refused == ()
    assert found.told == (
        sentence("python-is-here-and-on-head", version="3.11.9"),
        sentence("pytorch-is-here", machine="head"),
    )


def test_a_framework_that_one_machine_lacks_is_told() -> None:
    without = replace(HERE, tensorflow="")
    assert differences(HERE, without, "head").told == (sentence("tensorflow-is-on-this-machine"),)
    assert differences(without, HERE, "head").told == (sentence("tensorflow-is-on-head"),)
