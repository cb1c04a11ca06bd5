"""The page about a run or a comparison: it needs nothing but itself, and says only texts."""

import base64
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from engine.exports.export_runs import CannotExport, Format, export, proposed_name, refusal
from engine.exports.report import media
from engine.exports.report.html_report import MOST_RUNS
from engine.exports.report.plots import Curve, figure_of, place_of
from engine.facts import run_facts
from engine.facts.git_state import GitState
from engine.facts.run_facts import AttemptFacts, Layer, ModelFacts, Parent
from engine.imports.csv_tables import ColumnNames
from engine.imports.import_runs import import_runs
from engine.messages.events import (
    EpochEnded,
    Event,
    HistogramLogged,
    ImageLogged,
    Metrics,
    Notice,
    Points,
    RunEnded,
)
from engine.processes.process import PROJECT
from engine.runs import run_info
from engine.runs.run_notes import RunNotes, write_notes
from engine.spec.run_spec import RunSpec
from tests.support.recorded_runs import BEGIN, RecordedRun
from tests.support.sentences import sentence

BAD = '<script>alert(1)</script> "><img src=x onerror=alert(2)> ../é\x00\x1b'


class Page(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.svg_texts: list[str] = []
        self._open: list[str] = []
        self.feed(content)
        self.close()
        assert not self._open, "an element has no end"

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "br", "img"):
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            (self.svg_texts if "svg" in self._open else self.texts).append(data)

    @property
    def words(self) -> str:
        return " ".join(self.texts)


def report(folder: Path, *run_ids: str) -> tuple[str, Page]:
    infos = [run_info.get_run(run_id) for run_id in run_ids]
    file = export(infos, Format.HTML, folder / "report.html").path
    content = file.read_text("utf-8")
    return content, Page(content)


def a_run(name: str = "", values: tuple[float, ...] = (0.5, 0.25, 0.125), **spec) -> RecordedRun:
    settings = {"recipe": "digits", "strategy": "torch/single", "devices": ("cpu:0",)} | spec
    run = RecordedRun(RunSpec(**settings))
    run.begin()
    steps = [10 * (place + 1) for place in range(len(values))]
    times = [BEGIN + step for step in steps]
    for series in ("train/loss", "validation/loss"):
        run.add(Metrics(BEGIN, times[-1], [Points(series, steps, list(values), times)]))
    accuracy = [1 - value if math.isfinite(value) else value for value in values]
    run.add(Metrics(BEGIN, times[-1], [Points("validation/accuracy", steps, accuracy, times)]))
    run.add(EpochEnded(1, 10, {"validation/accuracy": 0.5}))
    run.add(RunEnded("finished", "All epochs are done."))
    run.store.close()
    if name:
        write_notes(run.folder, RunNotes(name=name, tags=("base",), note="two\nlines"))
    return run


def test_a_report_needs_nothing_but_itself(tmp_path):
    run = a_run()
    content, page = report(tmp_path, run.id)
    assert not page.names & {"script", "link", "img", "iframe", "object", "image", "use", "a"}
    loading = {"src", "href", "xlink:href", "srcset", "action"}
    assert not [name for name, _ in page.attributes if name in loading or name.startswith("on")]
    assert "url(" not in content
    assert "@import" not in content
    addresses = set(re.findall(r"https?://[^\"'\s<]+", content))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert any("default-src 'none'" in value for _, value in page.attributes)
    assert "prefers-color-scheme:dark" in content
    assert "@media print" in content


@pytest.mark.parametrize("several", [False, True])
def test_names_are_texts_wherever_they_stand(several, tmp_path):
    run = a_run(BAD, settings={BAD: BAD})
    run.store = type(run.store)(run.folder)
    run.add(Notice(BAD), Metrics(BEGIN, BEGIN, [Points(BAD, [1, 2], [0.5, 1.5], [BEGIN, BEGIN])]))
    run.store.close()
    write_notes(run.folder, RunNotes(name=BAD, tags=(BAD,), note=BAD))
    git = GitState(commit="c" * 40, branch=BAD, message=BAD, changed=(BAD,), changed_files=1)
    facts = AttemptFacts(attempt=1, recorded=BEGIN, python=BAD, packages={BAD: BAD}, git=git)
    run_facts.write_attempt(run.folder, facts)
    layer = Layer(BAD, 0, BAD, 10, 10, 40)
    run_facts.write_model(run.folder, ModelFacts(attempt=1, layers=(layer,)))
    ids = [run.id, a_run(BAD).id] if several else [run.id]
    content, page = report(tmp_path, *ids)
    assert not page.names & {"script", "img"}
    assert "<script>alert(1)</script>" in page.words  # as a text
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", content)


def test_no_template_leaves_a_text_as_it_is():
    templates = list((PROJECT / "resources" / "report").iterdir())
    assert templates
    for file in templates:
        assert not re.search(r"\|\s*safe\b|autoescape", file.read_text("utf-8")), file


def test_a_report_says_what_one_would_quote(tmp_path):
    parent = a_run()
    run = a_run("base line", learning_rate=0.5)
    git = GitState(commit="abc123" * 6, branch="main", changed=("a.py",), changed_files=1, added=3)
    facts = AttemptFacts(
        attempt=1, recorded=BEGIN, python="3.11.9", host="node7", packages={"numpy": "2.1"}, git=git
    )
    run_facts.write_attempt(run.folder, facts)
    layer = Layer("", 0, "Net", 1234, 1200, 4936)
    run_facts.write_model(run.folder, ModelFacts(attempt=1, layers=(layer,)))
    run_facts.write_parent(run.folder, Parent(run=parent.id))
    _, page = report(tmp_path, run.id)
    for words in (
        *("base line", "base", "two\nlines", "finished", "All epochs are done."),
        *("0.125", "87.5 %", "best val accuracy, step 30", "train loss, last"),
        *("Learning rate", "0.5", "was 0.001", f"run #{parent.id}"),
        *("3.11.9", "node7", "abc123" * 6, "1 file not committed, +3 −0"),
        "1,234 parameters, 1,200 of them trained",
    ):
        assert words in page.words, words
    assert {"Loss", "Accuracy (%)", "Step", "train", "val"} <= set(page.svg_texts)


def test_a_comparison_says_what_differs_and_which_run_is_best(tmp_path):
    runs = [a_run("first", learning_rate=0.5), a_run("second", (0.5, 0.1)), a_run("third", (0.9,))]
    _, page = report(tmp_path, *(run.id for run in runs))
    rows = re.split(r"(?=first #|second #|third #)", page.words.partition("Plots")[0])
    marked = [row.partition(" #")[0] for row in rows[1:] if "★" in row.partition("is the best")[0]]
    assert marked[0] == "second"
    assert "90 %" in rows[2]
    settings = page.words.partition("Settings")[2].partition("settings that are the same")[0]
    assert "Learning rate" in settings
    assert "Batch size" not in settings
    assert page.svg_texts.count("second #" + runs[1].id) >= 3  # in the legend of each plot


def test_runs_whose_best_figures_look_equal_share_the_star(tmp_path):
    """A star at one of two figures that are printed alike would be decided by bits unseen."""
    best = (0.123456, 0.123459, 0.9)
    ids = [a_run(name, (0.95, value)).id for name, value in zip("abc", best, strict=True)]
    content, page = report(tmp_path, *ids)
    runs = content.partition("<h2>Plots")[0]
    assert [row.count("★") for row in runs.partition("★ is")[0].split("<tr>")[2:]] == [2, 2, 0]
    assert "equal figures share it" in page.words
    (tmp_path / "report.html").unlink()
    content, _ = report(tmp_path, *ids[:2])
    assert "★" not in content.partition("<h2>Plots")[0]


def test_an_accuracy_that_was_logged_in_percent_is_not_multiplied_again(tmp_path):
    run = RecordedRun(RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",)))
    run.begin()
    for series in ("validation/accuracy", "train/accuracy"):
        points = Points(series, [1, 2], [0.9, 62.5], [BEGIN, BEGIN])
        run.add(Metrics(BEGIN, BEGIN, [points]))
    run.add(RunEnded("finished", "All epochs are done."))
    run.store.close()
    _, page = report(tmp_path, run.id)
    assert "62.5 %" in page.words
    assert "6250" not in page.words


def test_the_step_time_is_in_milliseconds_in_a_plot_of_its_own():
    place = place_of("train/step_seconds")
    assert (place.title, place.unit, place.factor) == ("Step time", "ms", 1000.0)
    assert place_of("train/samples_per_second").title == "Throughput"


def test_the_memory_of_the_whole_machine_is_not_that_of_the_run(tmp_path):
    machine, run = place_of("device/cpu/memory"), place_of("device/cpu/process_memory")
    assert "whole machine" in machine.title
    assert "whole machine" not in run.title
    assert place_of("device/GPU-1/memory").title == "Device memory"
    recorded = RecordedRun(RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",)))
    recorded.begin()
    recorded.add(Metrics(BEGIN, BEGIN, [Points("device/cpu/memory", [1], [2.0**30])]))
    recorded.store.close()
    assert "device/cpu/memory (whole machine)" in report(tmp_path, recorded.id)[1].words


def test_a_share_has_no_axis_above_all_of_it():
    curve = Curve("cpu", [1.0, 2.0], [90.0, 100.0])
    figure = figure_of("Device utilisation", "%", "", "", [curve], {"cpu": 0})
    assert figure is not None
    assert figure.y.high == 100.0


def test_curves_that_cannot_be_drawn_are_named(tmp_path):
    run = a_run(values=(math.nan, math.inf))
    _, page = report(tmp_path, run.id)
    assert "Not drawn" in page.words
    assert "Loss" in page.words.partition("Not drawn")[2]
    assert "NaN" in page.words or "∞" in page.words


@pytest.mark.parametrize(
    "values", [(5.0,), (1e308, -1e308), (1e-300, 1e300), (0.0, 0.0), (1e20, 1e20 + 1e5), (1, 1e6)]
)
def test_values_of_every_size_are_drawn(values, tmp_path):
    _, page = report(tmp_path, a_run(values=values).id)
    places = [value for name, value in page.attributes if name == "d"]
    assert places
    assert not [each for each in places if "nan" in each or "inf" in each]


def test_an_imported_run_is_said_to_be_one(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("step,reward\n1,2.5\n2,3.5\n")
    (run_id,) = import_runs([table], ColumnNames()).run_ids
    _, page = report(tmp_path, run_id)
    assert "imported" in page.words
    assert str(table) in page.words
    assert "epochs" not in page.words.lower()
    assert "Batch size" not in page.words  # it has none that is known
    assert "reward" in page.svg_texts


def test_secrets_of_a_command_are_not_in_a_report(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    run = a_run(
        strategy="script/single",
        recipe=str(script),
        command=("python", "train.py", "--data", "https://me:hunter2pass@host/x"),
    )
    content, _ = report(tmp_path, run.id)
    assert "train.py" in content
    assert "hunter2pass" not in content


PNG = b"\x89PNG\r\n\x1a\n and the rest"


def a_run_with_media(images: dict[str, bytes], *events: Event) -> RecordedRun:
    run = a_run()
    run.store = type(run.store)(run.folder)
    (run.folder / "media").mkdir()
    for number, (name, content) in enumerate(images.items()):
        (run.folder / "media" / f"{number}.png").write_bytes(content)
        run.add(ImageLogged(name, number, f"media/{number}.png", 4, 3, BAD))
    run.add(*events)
    run.store.close()
    return run


def test_the_newest_image_and_histogram_of_each_name_are_in_the_page(tmp_path):
    histograms = [HistogramLogged("weights", 10 * n, [-1.0, 0, 2], [3.0, 4]) for n in (1, 2)]
    run = a_run_with_media({"samples": PNG + b"old"}, *histograms)
    run.store = type(run.store)(run.folder)
    (run.folder / "media" / "new.png").write_bytes(PNG)
    run.add(ImageLogged("samples", 40, "media/new.png", 4, 3))
    run.store.close()
    content, page = report(tmp_path, run.id)
    data = base64.b64encode(PNG).decode()
    assert [value for name, value in page.attributes if name == "src"] == [
        f"data:image/png;base64,{data}"
    ]
    assert any("img-src data:;" in value for _, value in page.attributes)
    assert "samples, step 40" in page.words
    assert "weights, step 20" in page.svg_texts
    assert "weights, step 10" not in page.svg_texts
    assert sentence("left-out-older-ones-of-same") in page.words
    assert "<script>" not in content


def test_what_is_no_image_or_too_large_is_left_out_and_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(media, "LARGEST_IMAGE", 100)
    monkeypatch.setattr(media, "LARGEST_TOGETHER", 120)
    monkeypatch.setattr(media, "MOST_SHOWN", 5)
    contents = {"a": b"<svg/>", "b": PNG + bytes(100), BAD: PNG, "c": PNG + bytes(60)}
    contents |= {"d": PNG + bytes(60), "e": PNG}
    elsewhere = ImageLogged("A", 3, "../../spec.toml", 4, 3)
    nothing = HistogramLogged("n", 3, [0.0, math.inf], [1.0])
    content, page = report(tmp_path, a_run_with_media(contents, elsewhere, nothing).id)
    assert sum(name == "src" for name, _ in page.attributes) == 2
    for words in (
        "2 after the first 5 names",
        "2 that cannot be read",
        "1 too large for a page",
        "1 without a finite number",
    ):
        assert words in page.words.partition("Left out: ")[2], words
    assert "<script>" not in content
    assert not page.names & {"script"}


def test_more_runs_than_a_page_can_show_are_refused(tmp_path):
    info = run_info.get_run(a_run().id)
    assert str(MOST_RUNS) in refusal([info] * (MOST_RUNS + 1), Format.HTML)
    assert not refusal([info] * MOST_RUNS, Format.HTML)


def test_a_report_that_is_cancelled_leaves_nothing(tmp_path):
    info = run_info.get_run(a_run().id)
    assert proposed_name([info], Format.HTML).endswith(".html")
    (tmp_path / "there.html").write_text("mine")
    with pytest.raises(CannotExport, match="exists already"):
        export([info], Format.HTML, tmp_path / "there.html")
    assert (tmp_path / "there.html").read_text() == "mine"

    def cancel(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export([info], Format.HTML, tmp_path / "new.html", cancel)
    assert {path.name for path in tmp_path.iterdir()} - {"home"} == {"there.html"}
