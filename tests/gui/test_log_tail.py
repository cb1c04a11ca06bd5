"""Following a log file in bounded pieces."""

from __future__ import annotations

from pathlib import Path

from gui.log_tail import MOST_BYTES, LogTail


def test_a_long_log_begins_near_its_end_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text("".join(f"line {number}\n" for number in range(100_000)))
    lines = LogTail(path).read()
    assert lines[-1] == "line 99999"
    assert all(line.startswith("line ") for line in lines)
    assert sum(len(line) + 1 for line in lines) <= MOST_BYTES


def test_a_log_that_begins_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text("a long first life\n")
    tail = LogTail(path)
    tail.read()
    path.write_text("second\n")
    assert tail.read() == ["second"]


def test_an_unfinished_line_waits_until_the_run_is_over(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text("done\nhalf")
    tail = LogTail(path)
    assert tail.read() == ["done"]
    assert tail.read(whole=True) == ["half"]
    assert tail.read(whole=True) == []


def test_progress_bars_and_broken_bytes_come_out_as_a_terminal_shows_them(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_bytes(b" 10 %\r 20 %\r100 %\r\n\xff\xfe\n")
    assert LogTail(path).read() == ["100 %", "��"]
