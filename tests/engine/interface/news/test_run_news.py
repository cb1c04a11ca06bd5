"""What comes from another machine is decoded, limited, and never believed."""

from __future__ import annotations

import contextlib
import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.interface.encoding import decode_answer, methods
from engine.interface.news.run_curves import SentCurves
from engine.interface.news.run_news import (
    UNREADABLE,
    SentNews,
    SentRuns,
    decode_event,
    encode_run,
    unpack_news,
    unpack_runs,
)
from engine.interface.sent_code import is_plain
from engine.interface.value_encoding import encode
from engine.messages.events import Notice
from engine.runs.run_info import RunInfo, UnreadableRun, get_run
from tests.support.generated_values import sixty_examples, values_of
from tests.support.recorded_runs import RecordedRun
from tests.support.sentences import sentence


@sixty_examples
@given(values_of(SentNews))
def test_news_without_sense_raise_nothing_else(nonsense: SentNews) -> None:
    with contextlib.suppress(*UNREADABLE):
        decode_answer(methods()["follow"], encode(nonsense), "gpus")


@sixty_examples
@given(values_of(SentCurves))
def test_curves_without_sense_raise_nothing_else(nonsense: SentCurves) -> None:
    with contextlib.suppress(*UNREADABLE):
        decode_answer(methods()["read_curves"], encode(nonsense), "gpus")


@sixty_examples
@given(st.binary(max_size=60))
def test_an_event_that_cannot_be_read_is_a_notice(body: bytes) -> None:
    assert decode_event(1, 0.0, body).seq == 1
    assert isinstance(decode_event(1, 0.0, b"\xc1" + body).event, Notice)


def test_what_is_nested_without_end_is_no_end_of_the_connection() -> None:
    deep = b"\x91" * 100_000
    assert isinstance(decode_event(1, 0.0, deep).event, Notice)
    (found,) = unpack_runs(SentRuns(["1"], {"1": deep}), "gpus").changed
    assert isinstance(found, UnreadableRun)
    assert found.id == "1"


def test_only_numbers_are_taken_for_runs_and_each_row_is_of_its_run() -> None:
    run = RecordedRun()
    run.begin()
    row = encode_run(get_run(run.id))
    run.store.close()
    strange = ["../7", "007", "1\n", "0", "9" * 30, "x"]
    ids = [run.id, "2", *strange]
    sent = SentRuns(ids, dict.fromkeys(ids, row), dict.fromkeys(strange, "why"), strange)
    news = unpack_runs(sent, "gpus")
    assert news.ids == list(news.digests) == [run.id, "2"]
    assert [each.id for each in news.changed if isinstance(each, RunInfo)] == [run.id]
    assert [each.id for each in news.changed if isinstance(each, UnreadableRun)] == ["2"]
    assert (news.unreadable, news.trashed) == ([], [])


def test_a_run_of_a_newer_version_is_listed_with_the_reason() -> None:
    run = RecordedRun()
    run.begin()
    row = msgspec.msgpack.decode(encode_run(get_run(run.id)))
    run.store.close()
    sent = SentNews(b"", run=encode(row | {"state": "dreaming"}), series=["train/loss"])
    shown = unpack_news(sent, "gpus")
    assert sentence("only-be-read-by-traindeck") in shown.trouble
    assert shown.series == ["train/loss"], "all else is shown"
    newer = encode(row | {"spec": row["spec"] | {"warp": 9}, "mood": "good"})
    info = unpack_news(SentNews(b"", run=newer), "gpus").info
    assert info is not None
    assert info.spec == get_run(run.id).spec


@sixty_examples
@given(st.text(st.sampled_from(string.ascii_letters + "./\\:*\0\n ~"), max_size=12))
def test_a_plain_name_stays_where_it_is(name: str) -> None:
    assert not is_plain("a/" * 1900 + "b")
    if is_plain(name):
        assert not name.startswith("/")
        assert not set("\\:\0\n") & set(name)
        assert not {"", ".", ".."} & set(name.split("/"))


@pytest.mark.parametrize("name", ["a", "a/b.csv", "a b", "é.csv", ".hidden", "a..b", "~"])
def test_ordinary_names_are_plain(name: str) -> None:
    assert is_plain(name)
