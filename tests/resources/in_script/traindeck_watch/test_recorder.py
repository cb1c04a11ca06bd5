from __future__ import annotations

import math
import re

from traindeck_watch import recorder
from traindeck_watch.recorder import Recorder, Summed


class Sent:
    def __init__(self):
        self.frames = []

    def send(self, frame):
        self.frames.append(frame)
        return True


def test_points_are_sent_in_columns_and_frames_in_their_place():
    link, notices = Sent(), []
    record = Recorder(link, notices.append)
    record.record("a", 1, 0.5)
    record.record("b", 1, Summed([1, 2.5]))
    record.put({"kind": "saved"})
    record.record("a", 2, float("nan"))
    record.record("text", 2, "no number")
    record.flush({"step": 2})
    first, saved, second = link.frames
    assert [(name, steps, values) for name, steps, values, _ in first["points"]] == [
        ("a", [1], [0.5]),
        ("b", [1], [3.5]),
    ]
    assert saved == {"kind": "saved"}
    [[name, steps, [value], _]] = second["points"]
    assert (name, steps) == ("a", [2])
    assert math.isnan(value)
    assert not record.has_pending


def test_both_figures_of_a_step_are_points_of_its_time(monkeypatch):
    link = Sent()
    record = Recorder(link, print)
    monkeypatch.setattr(recorder.time, "time", lambda: 1000.0)
    monkeypatch.setattr(recorder.time, "monotonic", lambda: 30.0)
    record.record_step(("loss", 1, 20.0, Summed([0.25, 0.5]), "rate", 0.1))
    record.record_step(("loss", 2, 25.0, None, "rate", 0.2))
    record.record_step(("loss", 3, 28.0, 0.5, "rate", None))
    record.flush({})
    assert [frame["points"] for frame in link.frames] == [
        [
            ["loss", [1, 3], [0.75, 0.5], [990.0, 998.0]],
            ["rate", [1, 2], [0.1, 0.2], [990.0, 995.0]],
        ]
    ]


def test_progress_is_sent_without_points():
    link = Sent()
    record = Recorder(link, print)
    record.flush({"step": 7})
    record.flush({})
    assert link.frames == [{"kind": "points", "points": [], "step": 7}]


def test_too_many_points_are_left_out_and_a_person_is_told(monkeypatch):
    monkeypatch.setattr(recorder, "LARGEST_PENDING", 3)
    link, notices = Sent(), []
    record = Recorder(link, notices.append)
    for step in range(5):
        record.record("a", step, 1.0)
    record.put({"kind": "notice"})
    record.flush({})
    assert link.frames[0]["points"][0][1] == [0, 1, 2]
    assert [re.findall(r"\d+", text) for text in notices] == [["3"]]
    for step in range(5, 9):
        record.record("a", step, 1.0)
    record.flush({})
    assert len(notices) == 1, "not with each flush"
    record.tell_left_out()
    assert len(notices) == 2


def test_many_points_are_sent_in_frames_that_the_other_side_takes(monkeypatch):
    monkeypatch.setattr(recorder, "POINTS_OF_A_FRAME", 2)
    link, notices = Sent(), []
    record = Recorder(link, notices.append)
    for step in range(5):
        record.record("a", step, 1.0)
    record.flush({"step": 5})
    assert [frame["points"][0][1] for frame in link.frames] == [[0, 1], [2, 3], [4]]


def test_what_cannot_be_sent_is_told():
    link, notices = Sent(), []
    link.send = lambda frame: False
    record = Recorder(link, notices.append)
    record.record("a", 1, 1.0)
    record.put({"kind": "image", "png": "too large"})
    record.flush({})
    assert [re.findall(r"\d+", text) for text in notices] == [["2"]]


def test_a_device_that_fails_costs_the_figures_only():
    link, notices = Sent(), []
    record = Recorder(link, notices.append)

    def fetch(values):
        raise RuntimeError("device lost")

    record.fetch = fetch
    record.record("a", 1, object())
    record.record("b", 1, 2.0)
    record.flush({})
    assert [row[0] for row in link.frames[0]["points"]] == ["b"]
    assert "device lost" in notices[0]
