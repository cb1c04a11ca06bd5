"""The memory that a control group leaves."""

from __future__ import annotations

from pathlib import Path

import psutil

from engine.processes.free_memory import free_bytes, left_in_groups


def limited(folder: Path, limit: str, used: int, unused: int) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {unused}\n")
    return folder


def test_each_group_leaves_what_is_not_used_or_can_be_given_back(tmp_path: Path) -> None:
    outer = limited(tmp_path / "outer", "1000", 700, 100)
    middle = limited(outer / "middle", "max", 500, 0)
    own = limited(middle / "own", "300", 350, 20)
    assert left_in_groups(own) == [0.0, 400.0]
    assert left_in_groups(tmp_path) == []


def test_it_is_never_more_than_the_machine_has() -> None:
    assert 0 < free_bytes() <= psutil.virtual_memory().total
