"""Checkpoint files that come from another machine: whole, or refused with a reason."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.messages.channel import CheckpointKept, CheckpointPart, CheckpointSent, Message
from engine.runs.checkpoints import checkpoint_files
from engine.supervisor.machines.part_keeper import PartKeeper
from engine.worker import part_sender
from engine.worker.part_sender import PartSender
from tests.support.sentences import sentence

STEP = 7


class Wire:
    """A channel that ends in a keeper, which answers at once."""

    def __init__(self, keeper: PartKeeper, change: Callable[[Message], Message | None]) -> None:
        self._keeper = keeper
        self._change = change
        self.sender: PartSender | None = None

    def send(self, message: Message) -> None:
        changed = self._change(message)
        if isinstance(changed, CheckpointPart):
            self._keeper.add(changed)
        elif isinstance(changed, CheckpointSent):
            answer = self._keeper.end(changed)
            assert self.sender
            threading.Thread(target=self.sender.kept, args=(answer,)).start()


def sent(
    there: Path, here: Path, change: Callable[[Message], Message | None] = lambda each: each
) -> list[int]:
    """Send the files of a checkpoint from one run folder to another; return the counted sizes."""
    wire: Any = Wire(PartKeeper(here), change)
    wire.sender = sender = PartSender(wire, sends=True)
    counted: list[int] = []
    sender.send(there, STEP, counted.append)
    return counted


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A run folder with the files of two ranks."""
    folder = checkpoint_files.begin(tmp_path / "there", STEP)
    (folder / "tensors").mkdir()
    (folder / "tensors" / "part-1").write_bytes(bytes(range(256)) * 40)
    (folder / "rank1.pt").write_bytes(b"state")
    (folder / "empty").write_bytes(b"")
    return tmp_path / "there"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The run folder of the head, with a file of its own rank."""
    folder = checkpoint_files.begin(tmp_path / "here", STEP)
    (folder / "rank0.pt").write_bytes(b"own")
    return tmp_path / "here"


def test_all_files_arrive_whole_and_are_removed_there(
    there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_sender, "_AT_ONCE", 1000)
    assert sum(sent(there, here)) == 256 * 40 + 5
    folder = checkpoint_files.temporary_folder(here, STEP)
    assert (folder / "tensors" / "part-1").read_bytes() == bytes(range(256)) * 40
    assert (folder / "rank1.pt").read_bytes() == b"state"
    assert (folder / "empty").read_bytes() == b""
    assert (folder / "rank0.pt").read_bytes() == b"own"
    assert not checkpoint_files.temporary_folder(there, STEP).exists()


def moved(there: Path, here: Path, change: Callable[[Message], Message | None]) -> None:
    """Let the head take the files of a checkpoint from the run folder of another machine."""
    parts = there / checkpoint_files.FOLDER
    wire: Any = Wire(PartKeeper(here, parts), change)
    wire.sender = sender = PartSender(wire, sends=True, is_shared=True)
    sender.send(there, STEP, lambda size: None)


def test_in_a_shared_folder_files_are_moved_and_none_is_sent(there: Path, here: Path) -> None:
    said: list[Message] = []

    def note(message: Message) -> Message:
        said.append(message)
        return message

    moved(there, here, note)
    assert [type(each) for each in said] == [CheckpointSent]
    folder = checkpoint_files.temporary_folder(here, STEP)
    assert (folder / "tensors" / "part-1").read_bytes() == bytes(range(256)) * 40
    assert (folder / "rank0.pt").read_bytes() == b"own"
    assert not checkpoint_files.temporary_folder(there, STEP).exists()


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"rank1.pt": (4, "")}, sentence("not-all-of-arrived")),
        ({"rank2.pt": (4, "")}, "no such file or directory"),
        ({"../rank1.pt": (5, "")}, sentence("path-is-no-name-of-file-of-checkpoint")),
    ],
)
def test_what_the_head_does_not_see_is_refused(
    there: Path, here: Path, files: dict[str, tuple[int, str]], problem: str
) -> None:
    keeper = PartKeeper(here, there / checkpoint_files.FOLDER)
    assert keeper.end(CheckpointSent(STEP, files)).problem == problem
    assert sorted(each.name for each in here.rglob("*") if each.is_file()) == ["rank0.pt"]


def test_a_moved_file_overwrites_none_of_another_rank(there: Path, here: Path) -> None:
    (checkpoint_files.temporary_folder(there, STEP) / "rank0.pt").write_bytes(b"evil")
    keeper = PartKeeper(here, there / checkpoint_files.FOLDER)
    assert keeper.end(CheckpointSent(STEP, {"rank0.pt": (4, "")})).problem == "file exists"
    assert (checkpoint_files.temporary_folder(here, STEP) / "rank0.pt").read_bytes() == b"own"


def test_a_lost_piece_is_noticed_and_the_files_stay_there(there: Path, here: Path) -> None:
    def lose(message: Message) -> Message | None:
        is_lost = isinstance(message, CheckpointPart) and message.name == "rank1.pt"
        return None if is_lost else message

    with pytest.raises(OSError, match="not all of it arrived"):
        sent(there, here, lose)
    assert checkpoint_files.temporary_folder(there, STEP).exists()


def test_a_changed_byte_is_noticed(there: Path, here: Path) -> None:
    def change(message: Message) -> Message:
        if isinstance(message, CheckpointPart) and message.name == "rank1.pt":
            return CheckpointPart(message.step, message.name, b"STATE")
        return message

    with pytest.raises(OSError, match="not all of it arrived"):
        sent(there, here, change)


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", "a/../b", ""])
def test_a_name_that_leaves_the_folder_is_refused(here: Path, name: str) -> None:
    keeper = PartKeeper(here)
    keeper.add(CheckpointPart(STEP, name, b"evil"))
    assert (
        sentence("is-no-name-of-file-of-checkpoint") in keeper.end(CheckpointSent(STEP, {})).problem
    )
    assert sorted(each.name for each in here.rglob("*") if each.is_file()) == ["rank0.pt"]


def test_a_file_of_another_rank_is_not_overwritten(here: Path) -> None:
    keeper = PartKeeper(here)
    keeper.add(CheckpointPart(STEP, "rank0.pt", b"evil"))
    assert keeper.end(CheckpointSent(STEP, {})).problem == "file exists"
    assert (checkpoint_files.temporary_folder(here, STEP) / "rank0.pt").read_bytes() == b"own"


def test_the_reason_of_the_heads_disk_reaches_the_worker(there: Path, here: Path) -> None:
    def fill(message: Message) -> Message:
        if isinstance(message, CheckpointSent):
            raise OSError(28, "No space left on device")
        return message

    keeper = PartKeeper(here)
    keeper._write = lambda part: fill(CheckpointSent(part.step, {}))  # type: ignore[method-assign,assignment,return-value]
    keeper.add(CheckpointPart(STEP, "rank1.pt", b"state"))
    kept = keeper.end(CheckpointSent(STEP, {"rank1.pt": (5, "")}))
    assert kept == CheckpointKept(STEP, "no space left on device", 28)


def test_a_sender_whose_head_is_gone_gives_up(there: Path) -> None:
    class Nowhere:
        def send(self, message: Message) -> None:
            if isinstance(message, CheckpointSent):
                sender.orphaned()

    nowhere: Any = Nowhere()
    sender = PartSender(nowhere, sends=True)
    with pytest.raises(EOFError):
        sender.send(there, STEP, lambda size: None)


def test_the_other_ranks_of_a_machine_send_nothing(tmp_path: Path) -> None:
    nothing: Any = None
    PartSender(nothing, sends=False).send(tmp_path, STEP, lambda size: None)
