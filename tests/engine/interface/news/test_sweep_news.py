"""Sweeps of another machine: only what changes travels, and nothing strange is taken for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from filelock import FileLock
from optuna.trial import TrialState

from engine.client import CannotStart
from engine.interface.news import sweep_news
from engine.interface.news.sweep_news import SweepPart, SweepParts, SweepsNews, SweepsThere
from engine.interface.value_encoding import encode, without_defaults
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import Choices
from engine.sweeps.report import SweepIndex, SweepReader, SweepReport, SweepSummary
from engine.sweeps.study import RUN, DamagedJournal, TrialResult, open_study, suggest
from engine.sweeps.sweep import FILE_NAME, JOURNAL, LOCK, STOP, Sweep
from tests.support.made_sweeps import BASE, make_sweep
from tests.support.remote_peer import Peer

SWEEP = Sweep(base=BASE, ranges={"seed": Choices((1, 2))}, trials=2)
RECIPE = b"import torch\n\ndef model():\n    ...\n\ndef datasets():\n    ...\n"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with closing(Peer()) as peer:
        yield peer


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Collects the folders of the sweeps that would be driven."""
    found: list[Path] = []
    monkeypatch.setattr(sweeps, "drive", found.append)
    return found


def told(report: SweepReport) -> SweepReport:
    """Return a report of this machine as it is called elsewhere."""
    summary = report.summary
    best = summary.best and named(summary.best)
    return SweepReport(
        msgspec.structs.replace(summary, sweep=f"gpus:{summary.sweep}", best=best),
        report.sweep,
        tuple(map(named, report.trials)),
        report.importance,
    )


def named(trial: TrialResult) -> TrialResult:
    return msgspec.structs.replace(trial, run=trial.run and f"gpus:{trial.run}")


def finish_one(folder: Path) -> None:
    """Let one more trial of a made sweep be over."""
    sweep = sweeps.read(folder)
    study = open_study(folder, sweep)
    trial = study.ask()
    suggest(trial, sweep.ranges)
    trial.set_user_attr(RUN, "77")
    study.tell(trial, 0.5, state=TrialState.COMPLETE)


def parts(news: SweepsNews) -> dict[str, SweepPart]:
    return {each: msgspec.msgpack.decode(one, type=SweepPart) for each, one in news.changed.items()}


def test_the_sweeps_there_are_those_of_that_machine_and_only_changes_come(peer: Peer) -> None:
    make_sweep(12, failed=(2,), with_runs=False)
    folder = make_sweep(3, trials=8, with_runs=False)
    there = SweepsThere()
    peer.begin("watch_sweeps")
    found = there.take(peer.news(), "gpus")
    assert found == [told(each) for each in SweepIndex().read()]
    assert found[0].trials[0].run == "gpus:1"
    assert found[1].importance
    finish_one(folder)
    news = peer.news()
    (part,) = parts(news).values()
    assert [each.number for each in part.trials] == [3]
    assert part.sweep is None
    later = there.take(news, "gpus")
    assert later == [told(each) for each in SweepIndex().read()]
    assert later[1] is found[1]


def test_many_trials_come_in_parts_and_are_shown_when_all_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = make_sweep(30, trials=40, with_runs=False)
    reader = SweepReader(folder)
    there, begun = SweepsThere(), SweepParts()
    first = begun.news([reader.read()])
    assert first is not None
    assert not begun.has_more
    before = there.take(first, "gpus")
    monkeypatch.setattr(sweep_news, "PUSH_BYTES", 500)
    again, counts = SweepParts(), []
    while (news := again.news([reader.read()])) is not None:
        counts.append(len(parts(news)["1"].trials))
        found = there.take(news, "gpus")
        assert len(found[0].trials) == 30, "the last known ones until all have come"
    assert len(counts) > 3
    assert sum(counts) == 30
    assert not again.has_more
    assert found == before


def test_what_is_damaged_there_says_so_and_is_there_again() -> None:
    folder = make_sweep(2, with_runs=False)
    reader, begun, there = SweepReader(folder), SweepParts(), SweepsThere()

    def now() -> SweepReport:
        news = begun.news([reader.read()])
        assert news is not None
        return there.take(news, "gpus")[0]

    whole = now()
    content = (folder / FILE_NAME).read_text()
    (folder / FILE_NAME).write_text("")
    damaged = now()
    assert (damaged.sweep, damaged.trials) == (None, ())
    assert "Sweep 1 cannot be read" in damaged.summary.problem
    (folder / FILE_NAME).write_text(content)
    assert now() == whole


def part(**more: Any) -> bytes:
    summary = SweepSummary(sweep="1", state=more.pop("state", "finished"), trials=1, done=1)
    trials = [TrialResult(more.pop("number", 0), more.pop("run", "1"), "finished", {}, 0.5)]
    sweep = without_defaults(SWEEP) | more.pop("sweep", {})
    return encode(SweepPart(summary, 1, trials, is_whole=True, sweep=sweep, **more))


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (b"nonsense", ""),
        (part(state="dreaming"), "the state dreaming"),
        (part(number=10_000), "more trials than a sweep can have"),
        (part(sweep={"ranges": {"warp": {"type": "choices", "values": [1]}}}), "no setting warp"),
        (part(sweep={"trials": 0}), "1 to 10,000 runs"),
    ],
)
def test_what_cannot_be_read_here_is_listed_with_the_reason(packed: bytes, why: str) -> None:
    there = SweepsThere()
    later = encode(SweepPart(SweepSummary(sweep="1", state="running"), 1))
    for news in (packed, later):
        (report,) = there.take(SweepsNews(["1"], {"1": news}), "gpus")
        assert (report.summary.sweep, report.summary.state) == ("gpus:1", "damaged")
        assert "can only be read by the Traindeck of its machine" in report.summary.problem
        assert why in report.summary.problem
    (whole,) = there.take(SweepsNews(["1"], {"1": part()}), "gpus")
    assert whole.sweep == SWEEP


def test_what_a_newer_version_has_added_costs_nothing() -> None:
    newer = part(sweep={"temperature": 3, "base": without_defaults(BASE) | {"warp_factor": 9}})
    (report,) = SweepsThere().take(SweepsNews(["1"], {"1": newer}), "gpus")
    assert report.sweep == SWEEP


def test_why_no_more_trials_start_there_is_told_with_the_sweep() -> None:
    folder = make_sweep(2, trials=5, with_runs=False)
    reader, begun, there = SweepReader(folder), SweepParts(), SweepsThere()

    def now() -> str:
        news = begun.news([reader.read()])
        assert news is not None
        (report,) = there.take(news, "gpus")
        return report.summary.reason

    assert now() == ""
    sweeps.note_reason(folder, "No trial can be started.")
    assert now() == "No trial can be started."


def test_a_summary_of_another_minor_version_is_read() -> None:
    sent = {"sweep": "1", "state": "stopped", "trials": 5, "done": 3}  # as 1.2 began
    for more, reason in (({}, ""), ({"reason": "Full.", "mood": "sad"}, "Full.")):
        packed = encode(
            {"summary": sent | more, "sweep": without_defaults(SWEEP), "is_whole": True}
        )
        (report,) = SweepsThere().take(SweepsNews(["1"], {"1": packed}), "gpus")
        assert (report.summary.state, report.summary.reason) == ("stopped", reason)


def test_a_sweep_whose_base_is_none_is_named() -> None:
    packed = encode({"summary": {"sweep": "1", "state": "stopped"}, "sweep": {"base": [1]}})
    whole = msgspec.msgpack.encode(msgspec.msgpack.decode(packed) | {"is_whole": True})
    (report,) = SweepsThere().take(SweepsNews(["1"], {"1": whole}), "gpus")
    assert report.summary.state == "damaged"


def test_only_numbers_are_taken_for_sweeps_and_runs() -> None:
    there = SweepsThere()
    odd = SweepsNews(["../7", "1", "2"], {"../7": part(), "1": part(run="../../7")})
    (report,) = there.take(odd, "gpus")
    assert report.summary.sweep == "gpus:1"
    assert report.trials[0].run == ""
    assert there.take(SweepsNews([], {}), "gpus") == []


def test_a_sweep_starts_there_as_it_is(peer: Peer, driven: list[Path]) -> None:
    assert "pruner" not in without_defaults(SWEEP), "an older machine need not know it"
    assert peer.engine.start_sweep(SWEEP) == "1"
    (folder,) = driven
    assert sweeps.read(folder) == SWEEP


def test_a_sweep_that_cannot_start_there_is_refused_and_leaves_nothing(peer: Peer) -> None:
    wrong = msgspec.structs.replace(BASE, recipe="nowhere")
    with pytest.raises(CannotStart) as refused:
        peer.engine.start_sweep(msgspec.structs.replace(SWEEP, base=wrong))
    assert [each.field for each in refused.value.problems] == ["recipe"]
    for sweep, said in (
        (without_defaults(SWEEP) | {"temperature": 3}, "setting temperature"),
        (
            without_defaults(SWEEP) | {"base": without_defaults(BASE) | {"warp_factor": 9}},
            "setting warp_factor",
        ),
        (without_defaults(SWEEP) | {"ranges": {}}, "A sweep needs a range"),
    ):
        refusal = peer.answer(peer.begin("start_sweep", sweep=sweep)).refusal
        assert refusal is not None
        assert said in refusal.text
    assert sweeps.folders() == []


def test_a_sweep_there_is_stopped_and_resumed(peer: Peer, driven: list[Path]) -> None:
    folder = make_sweep(2, trials=4, with_runs=False)
    peer.engine.stop_sweep("1")
    assert (folder / STOP).exists()
    peer.engine.resume_sweep("1")
    assert driven == [folder]
    with pytest.raises(sweeps.NoSuchSweep, match=r"There is no sweep \.\./1"):
        peer.engine.stop_sweep("../1")
    (folder / JOURNAL).write_bytes(b"no json\n" * 3)
    with pytest.raises(DamagedJournal):
        peer.engine.resume_sweep("1")


def test_a_sweep_that_is_active_there_is_not_resumed_twice(peer: Peer) -> None:
    folder = make_sweep(2, trials=4, with_runs=False)
    is_refused = pytest.raises(sweeps.SweepActive, match="Sweep 1 is active already")
    with FileLock(folder / LOCK), is_refused:
        peer.engine.resume_sweep("1")
