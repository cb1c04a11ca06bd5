"""What is watched on another machine, without a connection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.interface.news import run_news
from engine.interface.news.run_news import RunsNews, pack_runs, unpack_runs
from engine.remote.watched import ListedRuns
from engine.runs.run_info import RunInfo
from tests.support.made_runs import made_run


def news(ids: Sequence[int], changed: Sequence[RunInfo]) -> RunsNews:
    """What a machine sends, as it comes here."""
    sent = RunsNews([str(each) for each in ids], [*changed], {}, [], [])
    return unpack_runs(pack_runs(sent), "gpus")


def test_of_a_long_list_only_the_newest_runs_are_decoded_and_an_older_one_when_it_is_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []
    decode = run_news.decode_run
    monkeypatch.setattr(
        run_news, "decode_run", lambda *given: (decoded.append(given[2]), decode(*given))[1]
    )
    told: list[tuple[list[str], list[str]]] = []
    listed = ListedRuns(
        lambda runs, _, numbers: told.append(([each.id for each in runs], numbers)), most=2
    )
    listed.take(news([4, 3, 2, 1], [made_run(n) for n in (4, 3, 2, 1)]), "gpus")
    assert told.pop() == (["4", "3"], ["4", "3", "2", "1"])
    listed.take(news([4, 2, 1], [made_run(4, note="changed")]), "gpus")
    assert told.pop() == (["4", "2"], ["4", "2", "1"])
    listed.take(news([5, 4, 2, 1], [made_run(5)]), "gpus")
    listed.take(news([4, 2, 1], []), "gpus")
    assert told.pop() == (["4", "2"], ["4", "2", "1"])
    assert decoded == ["4", "3", "4", "2", "5", "2"]
