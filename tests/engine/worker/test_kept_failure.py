"""A failure is reported once and soon, whatever happens while its step is kept."""

import threading
from types import SimpleNamespace

import pytest

from engine.cases.evidence import FOLDER, Kind, read_evidence
from engine.messages.events import WorkerFailed
from engine.supervisor.__main__ import _leave_case
from engine.worker import environment, kept_failure
from engine.worker.kept_failure import keep_hang, report_and_keep

REPORT = WorkerFailed(1, "ValueError: no", "", "", lost_peer=False)


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv(environment.ATTEMPT, "3")
    told = []
    return SimpleNamespace(folder=tmp_path, rank=1, told=told, emit=told.append)


def test_an_error_in_keeping_changes_no_report(session):
    def keep(error):
        raise MemoryError

    report_and_keep(session, SimpleNamespace(keep_failure=keep), ValueError("no"), REPORT)
    report_and_keep(session, SimpleNamespace(), ValueError("no"), REPORT)
    assert session.told == [REPORT, REPORT]


def test_a_step_that_hangs_again_delays_the_report_for_seconds_only(session, monkeypatch):
    monkeypatch.setattr(kept_failure, "KEEP_SECONDS", 0.05)
    is_told = threading.Event()
    session.emit = lambda report: (session.told.append(report), is_told.set())
    trainer = SimpleNamespace(keep_failure=lambda error: is_told.wait(60))
    report_and_keep(session, trainer, ValueError("no"), REPORT)
    assert session.told == [REPORT]


def test_a_recipe_without_a_model_is_kept_as_such_and_a_lost_peer_is_not(session):
    lost = WorkerFailed(1, "", "", "", lost_peer=True)
    report_and_keep(session, None, ValueError("no"), lost)
    assert not (session.folder / FOLDER).exists()
    report_and_keep(session, None, ValueError("no"), REPORT)
    kept = read_evidence(session.folder, 1, 3)
    assert (kept.kind, kept.error, kept.message) == (Kind.START, "ValueError", "no")
    assert read_evidence(session.folder, 1, 2) is None  # of another attempt


def test_a_sample_that_is_read_for_long_is_kept_when_the_worker_is_ended(session):
    keep_hang(session, SimpleNamespace(long_read=lambda seconds: None))
    assert not (session.folder / FOLDER).exists()
    keep_hang(session, SimpleNamespace(long_read=lambda seconds: (5, 0, 4, [77])))
    assert read_evidence(session.folder, 1, 3).reading == (77,)


def test_a_failure_file_that_cannot_be_written_harms_nothing(tmp_path):
    _leave_case(tmp_path / "gone", [])
    assert list(tmp_path.iterdir()) == []
