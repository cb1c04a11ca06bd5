"""Following a log file in bounded pieces."""

from __future__ import annotations

from pathlib import Path

from engine.files.log_tail import MAX_BYTES, LogTail, terminal_text


def test_a_long_log_begins_near_its_end_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text("".join(f"line {number}\n" for number in range(100_000)))
    tail = LogTail(path)
    said, *lines = tail.read()
    assert lines[-1] == "line 99999"
    assert all(line.startswith("line ") for line in lines)
    assert sum(len(line) + 1 for line in lines) <= MAX_BYTES
    missing = path.stat().st_size - MAX_BYTES
    assert said == f"[{missing:,} bytes skipped: see {path}]"
    assert tail.has_gaps


def test_a_log_that_begins_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text("a long first life\n")
    tail = LogTail(path)
    tail.read()
    path.write_text("second\n")
    assert tail.read() == ["second"]
    assert not tail.has_gaps


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


def test_colours_and_signs_that_are_none_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    link = b"\x1b]8;;http://localhost\x1b\\here\x1b]8;;\x07"
    path.write_bytes(
        b"\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m\n"
        b"epoch 1:  50%|\xe2\x96\x88   | 5/10\x1b[A\r"
        b"epoch 1: 100%|\xe2\x96\x88\xe2\x96\x88| 10/10\x1b[K\n"
        + link
        + b"\n\x00\x07a\tb\n\x1b(Bplain\n"
    )
    assert LogTail(path).read() == [
        "red and blue",
        "epoch 1: 100%|██| 10/10",
        "here",
        "a\tb",
        "plain",
    ]


def test_the_end_of_a_log_in_a_failure_is_shown_likewise() -> None:
    assert terminal_text("1 %\r99 %\n\x1b[31mValueError\x1b[0m: é\n") == "99 %\nValueError: é\n"
