"""What is said of compilers, headers and shared memory, and how a probe finds them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.doctor.facts import SystemFacts
from engine.doctor.machine import machine_checks
from engine.doctor.probing import ask
from tests.support.sentences import sentence

GIB = 1 << 30
GOOD = SystemFacts(
    python="3.11.7",
    headers=True,
    include="/include",
    c_compiler="/bin/cc",
    cpp_compiler="/bin/c++",
    shared_memory=8 * GIB,
    shared_memory_free=8 * GIB,
)


def test_a_machine_that_has_all() -> None:
    assert [check.level for check in machine_checks(GOOD)] == ["ok", "ok", "ok"]


@pytest.mark.parametrize(
    ("changes", "name", "level", "phrase"),
    [
        ({"shared_memory": 64 << 20}, "shared memory", "error", "/dev/shm has 64.0 MiB"),
        ({"shared_memory_free": 1 << 20}, "shared memory", "error", "Only 1.0 MiB of the 8.0 GiB"),
        ({"shared_memory": -1}, "shared memory", "unknown", "no /dev/shm"),
        ({"c_compiler": ""}, "compiler", "error", "There is no C compiler"),
        (
            {"c_compiler": "", "cpp_compiler": ""},
            "compiler",
            "error",
            sentence("no-c-compiler-so-torch-compile-cannot"),
        ),
        (
            {"cpp_error": "error: no stdlib.h"},
            "compiler",
            "error",
            sentence("does-not-compile-err"),
        ),
        ({"headers": False}, "Python headers", "error", sentence("python-headers-are-missing")),
        ({"headers": False, "c_error": "error: Python.h"}, "compiler", "unknown", "are there"),
    ],
    ids=str,
)
def test_what_is_missing_is_named_with_a_remedy(
    changes: dict[str, object], name: str, level: str, phrase: str
) -> None:
    checks = {each.name: each for each in machine_checks(msgspec.structs.replace(GOOD, **changes))}
    assert checks[name].level == level
    assert phrase in checks[name].text
    assert bool(checks[name].advice) is (level == "error")


@pytest.mark.usefixtures("processes")
def test_the_probe_compiles_a_module_and_measures_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = msgspec.convert(ask("machine", str(tmp_path), seconds=60.0).facts, SystemFacts)
    assert found.c_compiler
    assert (found.c_error, found.cpp_error) == ("", "")
    assert found.shared_memory > 0
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    missing = ask("machine", str(tmp_path / "none"), seconds=60.0)
    without = msgspec.convert(missing.facts, SystemFacts)
    assert (without.c_compiler, without.cpp_compiler) == ("", "")
    assert without.shared_memory == -1
