"""Random input from outside, made by hypothesis: none of it raises an unexpected exception."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from engine import client
from engine.messages.channel import CONTROL_FILE, Alive, Channel, Hello
from engine.messages.commands import Command, Pause, Resume, Stop
from engine.messages.events import AttemptStarted, Event, WorkerEvent
from engine.runs import run_info
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.run_store import FILE_NAME as STORE
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.spec.spec_file import UnreadableSpec, read_spec
from engine.supervisor.message_validation import is_valid
from tests.support.events import EXAMPLES, losses
from tests.support.generated_values import (
    TEXT,
    fifteen_examples,
    mutated,
    sixty_examples,
    values_of,
)
from tests.support.runs import is_training, spec, wait_for, wait_for_end, wait_until_gone


@sixty_examples
@given(st.one_of(st.binary(max_size=200), st.deferred(lambda: mutated(_spec_text()))))
def test_any_bytes_are_a_spec_or_an_unreadable_one(tmp_path: Path, data: bytes) -> None:
    (tmp_path / SPEC).write_bytes(data)
    _read_spec(tmp_path)


VALUES = st.recursive(
    st.one_of(TEXT, st.integers(), st.floats(), st.booleans(), st.dates()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@sixty_examples
@given(st.dictionaries(st.sampled_from(RunSpec.__struct_fields__), VALUES, max_size=3))
def test_any_value_in_a_spec_is_accepted_or_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    document = tomllib.loads(_spec_text().decode())
    document["run"] |= changes
    (tmp_path / SPEC).write_text(tomli_w.dumps(document), encoding="utf-8")
    _read_spec(tmp_path)


@sixty_examples
@given(values_of(RunSpec))
def test_every_spec_is_checked_with_sentences(wanted: RunSpec) -> None:
    if not _is_gpu(wanted):
        assert all(problem.text for problem in client.check(wanted))


@sixty_examples
@given(values_of(WorkerEvent | Alive), st.integers(-1, 3))
def test_every_message_of_a_worker_is_recorded_or_ignored(
    tmp_path: Path, message: WorkerEvent | Alive, rank: int
) -> None:
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=WorkerEvent | Alive)
    if not is_valid(sent, rank, 2) or isinstance(sent, Alive):
        return
    with closing(RunStore(tmp_path)) as store:
        store.append(AttemptStarted(1, 1, 1.0), 1.0)
        store.append(sent, 2.0)
    with RunReader(tmp_path) as reader:
        assert isinstance(reader.status(), RunStatus)
        for series in reader.counts():
            reader.history(series)


@pytest.mark.parametrize("event", [e for e in EXAMPLES if not isinstance(e, WorkerEvent)])
def test_events_of_the_supervisor_are_not_accepted_from_a_worker(event: Event) -> None:
    assert not is_valid(event, 0, 1)
    assert not is_valid(Hello(0), 0, 1)


@pytest.fixture
def training(processes: None) -> Iterator[str]:
    """A run that trains."""
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    wait_for(run_id, is_training)
    yield run_id
    client.send(run_id, Stop(now=True))
    wait_until_gone(wait_for_end(run_id))


FRAMES = st.one_of(
    st.binary(max_size=60),
    values_of(Event | Command | Hello | Alive).map(msgspec.msgpack.encode),
    st.sampled_from(EXAMPLES).flatmap(lambda event: mutated(msgspec.msgpack.encode(event))),
    st.just(b"\x81\xa4rank" + b"\x91" * 5000),
)


@pytest.mark.nightly
def test_a_live_supervisor_survives_any_frame_and_goes_on_answering(training: str) -> None:
    folder = client.get_run(training).folder
    control = json.loads((folder / CONTROL_FILE).read_text())

    @fifteen_examples
    @given(st.sampled_from([-(2**63), -1, 1, 2**63]), st.lists(FRAMES, max_size=20), st.booleans())
    def send_frames(rank: int, frames: list[bytes], says_hello: bool) -> None:
        with Client(control["address"], authkey=bytes.fromhex(control["key"])) as connection:
            if says_hello:
                connection.send_bytes(msgspec.msgpack.encode(Hello(rank)))
            with contextlib.suppress(BrokenPipeError):  # without a Hello
                for frame in frames:
                    if not _is_stop(frame):
                        connection.send_bytes(frame)

    send_frames()
    with Client(control["address"], authkey=bytes.fromhex(control["key"])) as connection:
        Channel(connection).send(Hello(-1))
        connection._send(b"\xff\xff\xff\xff" + b"\x7f" * 8)  # a frame of eight exabytes
    client.send(
        training, Resume() if client.get_run(training).state is RunState.PAUSED else Pause()
    )
    info = client.get_run(training)
    assert not info.state.is_over
    assert "Traceback" not in (folder / "logs" / "supervisor.log").read_text()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small store."""
    folder = tmp_path_factory.mktemp("stored")
    with closing(RunStore(folder)) as store:
        for event in EXAMPLES:
            store.append(event, 1.0)
        store.append(losses([0.5] * 200), 2.0)
    return (folder / STORE).read_bytes()


def test_any_store_is_read_or_is_an_sqlite_error(stored: bytes, traindeck_home: Path) -> None:
    folder = traindeck_home / "runs" / "1"
    folder.mkdir(parents=True)
    (folder / SPEC).write_bytes(_spec_text())

    @sixty_examples
    @given(mutated(stored))
    def read(data: bytes) -> None:
        (folder / STORE).write_bytes(data)
        found = run_info.try_get_run("1")
        assert isinstance(found, client.RunInfo | client.UnreadableRun)
        try:
            with RunReader(folder) as reader:
                reader.status(), reader.generation(), reader.last_seq(), reader.events_after(0)
                for series in reader.counts():
                    reader.history(series, most=50)
                    reader.points_after(series, 0)
        except sqlite3.Error:
            pass

    read()


def _read_spec(folder: Path) -> None:
    try:
        found = read_spec(folder)
    except UnreadableSpec:
        return
    assert client.RunInfo("1", folder, found, RunStatus(), RunState.FAILED, "").title


def _spec_text() -> bytes:
    wanted = spec("digits", "torch/ddp", 2, settings={"width": 8, "name": "ü"})
    document = {"run": msgspec.to_builtins(wanted), "environment": {"python": "3.11"}}
    return tomli_w.dumps(document).encode()


def _is_gpu(wanted: RunSpec) -> bool:
    return any(not device.startswith("cpu:") for device in wanted.devices)


def _is_stop(frame: bytes) -> bool:
    """Whether the frame could be a Stop, which would rightly end the run."""
    return b"stop" in frame
