"""Reads figures from lines of output, such as `step 20 | loss: 0.12`: the last resort."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from engine.messages.merged_metrics import LARGEST_STEP
from engine.script_rank.printed_numbers import NUMBER, NumberReader, without_groups

LONGEST_LINE = 2000
"""Characters; longer lines are data, and not for people."""

MOST_OF_A_LINE = 16
MOST_SERIES = 100

_MOST_WITHOUT_STEP = 4
"""Lines without a step for each with one, of a program whose lines name their steps."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f]")
_FIGURE = re.compile(
    rf"(?<![\w./-])([A-Za-z][A-Za-z0-9_/@.-]*(?: [A-Za-z][A-Za-z0-9_/@-]*){{0,2}})"
    rf"[\"']?\s*(?:[:=]\s*|\s+)[(\"']?({NUMBER})\s*(%)?(?![\w.]|,\d|:\d|/\d|-\d| \d{{3}},\d)"
    r"(?:\s*\(\s*(\d+\.\d+(?:e[-+]?\d+)?)\s*%?\))?",
    re.IGNORECASE,
)
"""A name of up to three words, then a number that begins no time, date or fraction; perhaps, in
brackets, the mean of all until then: `Loss 0.5 (0.4)`."""

_COUNT = re.compile(
    r"(?:(?<![\w.])(?:global[ _]step|num_update|step|iter(?:ation)?|it)s?[\"']?\s*[:=#]?\s*"
    r"[\[\"']?\s*"
    r"|^\[(?=\d+\]\s))"
    r"(\d+(?:[.,]\d+)*)(?![\d.]|,\d)|^(\d+):\s+learn:",
    re.IGNORECASE,
)
"""A step by its name, or as LightGBM, XGBoost and CatBoost begin a line."""

_EPOCH = re.compile(r"(?<![\w.])epoch\s*[:=#]?\s*\[?\s*(\d+)", re.IGNORECASE)
_ANY_NUMBER = re.compile(rf"(?<![\w.,])(?:{NUMBER})", re.IGNORECASE)
_TELLS = re.compile(r"\d|nan|inf", re.IGNORECASE)
_OWNER = re.compile(r"(\w)'s (?=[a-z])")
"""In the lines of LightGBM: `valid_0's auc`."""

_SETTINGS = re.compile(
    r"^\W*(?:\w+\()?(?:Namespace|args|arguments|config|configuration|options|settings|hparams|hyper-?parameters|parameters|params)\b",
    re.IGNORECASE,
)
"""The beginning of a line with settings, none of which is a figure."""

_SET_NUMBER = re.compile(r"^(\d+)[ _-]")
_LEARN = {"learn": "train", "test": "test"}
_WANTED = re.compile(
    r"loss|acc(?!um|ess|oun|el|ord)|error|err$|perplexity|ppl|nll|bpc|bpb|elbo|mse|mae|rmse|psnr|ssim|auc|auroc"
    r"|auprc|f1|bleu|rouge|(?<![a-z])(?:fid|wer|cer|m?iou|m?map|m?dice|kl|r2)(?![a-z])|precision|recall"
    r"|score|reward|return|lr$|learning[ _]rate|grad[ _]?norm|norm$|top[ -]?[15]",
    re.IGNORECASE,
)
"""Names of what is measured in a training; times, sizes and counts are no curves."""

_NOT_WANTED = re.compile(
    r"time|eta|elapsed|size|batch|worker|device|count|number|num_|/s$|weight|scale|thresh?|clip|coef"
    r"|target|patience|decay|smooth|interval|every|freq|warmup|seed|^(?:max|min)_",
    re.I,
)
_HEADER = re.compile(
    r"\s*(?:epoch|step|iter(?:ation)?)(?:\s+[a-z][a-z_/@-]*){2,20}\s*$", re.IGNORECASE
)
"""The first line of a table, as skorch and fastai print one."""

_REPEATS = re.compile(
    r"\b(?:(?:de|in)creased|improved?|dropped)\s*"
    rf"(?:\(\s*(?:{NUMBER})\s*-+>|from\s+(?:{NUMBER})|by\s+(?:{NUMBER})\s*>=).*",
    re.IGNORECASE,
)
"""What tells a best value, new and old, that an earlier line has told, such as
`Validation loss decreased (0.5 --> 0.4)`, `val_loss improved from 0.5 to 0.4`."""

_GROUP = (
    r"(val(?:i(?:d(?:ation)?)?)?|eval(?:uation)?|dev|test(?:ing)?|train(?:ing)?)"
    r"(?:[ _-]?(?:data[ _-]?)?set)?"
)
_PREFIX = re.compile(rf"^{_GROUP}[ _/.-]+", re.I)
_SUFFIX = re.compile(rf"(?:[ _]on)?[ _/.-]+{_GROUP}$", re.I)
_LINE = re.compile(
    rf"^(?:[\W\d]|(?:INFO|DEBUG|WARNING)\b)*{_GROUP}\b|\b(?:Epoch|Iter)\({_GROUP}\)", re.I
)
"""What its figures are of, if they do not say it themselves."""

_PLACE = re.compile(
    r"\s+(?:(?:at|after|for|in|of)\s+)?(?:step|iter(?:ation)?|epoch)\s+\d+\b(?![/.,:-]\d)", re.I
)
"""The middle of `loss after iteration 20: 0.5`."""

_FILLERS = re.compile(
    r"^(?!mean[ _](?:squared|absolute))"  # these are names of figures
    r"(?:and|the|using|with|info|debug|warning|current|avg|average|mean|total|running|epoch|step"
    r"|iter|done|finished|completed|(?:data)?set)[ _]",
    re.I,
)
_MESSAGE = re.compile(r"^(?:[IWEF]\d{4} |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )")
"""The beginning of a message of TensorFlow's libraries, whose numbers are codes."""

_OF_STEPS = re.compile(r"rank/|train/(?:loss|learning_rate)(?:_|$)")
_NOT_IN_KEY = re.compile(r"[^!-~]+")
_NAMES = {"lr": "learning_rate", "learning rate": "learning_rate", "acc": "accuracy"}


@dataclass(eq=False)
class Line:
    """A line about a validation or a test, as its figures share it."""

    key: str
    """See `line_key`."""

    step: int | None = None
    """The step after which the script has printed it, once that is known."""


class Figure(NamedTuple):
    """A figure of one line."""

    series: str
    """Such as `train/loss`."""

    step: int
    value: float
    line: Line | None = None


class FigureReader:
    """Finds the figures in an output that arrives in pieces. Progress bars end lines with `\\r`."""

    def __init__(self) -> None:
        self._rest = ""
        self._lines = 0
        self._last: dict[str, int] = {}
        self._bars: dict[str, int | None] = {}
        """The step that the last line of a series has named, if it was one of a progress bar: the
        next one may show the same step again."""

        self._highest = 0
        """The highest step that a line has named."""

        self._with_step: Counter[str] = Counter()
        self._without_step: Counter[str] = Counter()
        """Lines that name a step, and that do not, by series; of all under an empty name."""

        self._columns: list[str] = []
        """Names over the columns of the table that is printed now."""

        self._numbers = NumberReader()
        self.epoch = 0
        """The last epoch that a line named."""

    def read(self, piece: bytes) -> Iterator[Figure]:
        """Yield the figures of the lines that `piece` completes."""
        text = self._rest + piece.decode(errors="replace")
        *lines, self._rest = re.split(r"([\r\n]+)", text)
        self._rest = self._rest[-2 * LONGEST_LINE :]
        for line, end in zip(lines[::2], lines[1::2], strict=True):
            if len(line) > LONGEST_LINE or _MESSAGE.match(line):
                continue
            if _HEADER.match(line):
                self._columns = line.split()
            elif _TELLS.search(line):
                yield from self._figures(_ESCAPES.sub("", line), line, is_bar="\n" not in end)

    def _figures(self, line: str, raw: str, *, is_bar: bool) -> Iterator[Figure]:
        line = self._row(without_groups(line))
        if epoch := _EPOCH.search(line):
            self.epoch = min(int(epoch[1]), LARGEST_STEP)
        self._numbers.begin_line(_ANY_NUMBER.findall(line))
        found = self._values(line)
        if not found:
            return
        self._lines += 1
        count = self._count(line)
        names_steps = self._names_steps("")
        self._note("", count)
        self._highest = max(self._highest, count or 0)
        shared = Line(line_key(raw)) if any(map(is_of_validation, found)) else None
        for series, value in found.items():
            if series not in self._last and len(self._last) >= MOST_SERIES:
                continue
            last = self._last.get(series, -1)
            step = (self._highest if names_steps else self._lines) if count is None else count
            # One without a step, such as that of a test after the training, makes no further step.
            is_behind = self._names_steps(series) or (names_steps and step <= last)
            is_left_out = count is None and is_behind and not is_of_validation(series)
            self._note(series, count)
            if is_left_out:
                continue
            is_again = count is not None and self._bars.get(series) == count
            step = step if step > last else last + (not is_again)
            self._last[series] = step
            self._bars[series] = count if is_bar else None
            yield Figure(series, step, value, shared)

    def _row(self, line: str) -> str:
        """Return a row of a table with the names of its columns, and any other line as it is."""
        values = line.split()
        if len(values) != len(self._columns) or not values[0].isdigit():
            return line
        return ", ".join(map(" ".join, zip(self._columns, values, strict=True)))

    def _names_steps(self, series: str) -> bool:
        return self._without_step[series] < _MOST_WITHOUT_STEP * self._with_step[series]

    def _note(self, series: str, count: int | None) -> None:
        (self._without_step if count is None else self._with_step)[series] += 1

    def _values(self, line: str) -> dict[str, float]:
        """Return the values of a line by their series."""
        if _SETTINGS.match(line):
            return {}
        line = _PLACE.sub("", _OWNER.sub(r"\1 ", _REPEATS.sub("", line)))
        begins = _LINE.search(line)
        group = _group(begins[1] or begins[2]) if begins else "train"
        found: dict[str, float] = {}
        sets: dict[str, float] = {}
        for name, number, percent, mean in _FIGURE.findall(line)[:MOST_OF_A_LINE]:
            series = series_name(name, group)
            # A validation is the mean of its batches; a step is a batch.
            value = self._numbers.value((is_of_validation(series) and mean) or number)
            if value is None:
                continue
            if series:
                found[series] = value / (100 if percent else 1)
            elif (set_name := _set_name(name)) and "." in number:
                sets[f"{set_name}/metric"] = value / (100 if percent else 1)
        # A set alone is the name of a figure where several are compared: `Train: 0.9, Val: 0.8`.
        return found | sets if len(sets) > 1 else found

    def _count(self, line: str) -> int | None:
        """Return the step that a line names."""
        found = _COUNT.search(line)
        value = self._numbers.value(found[1] or found[2]) if found else None
        if value is None or not value.is_integer() or value > LARGEST_STEP:
            return None
        return int(value)


class RepeatedFigures:
    """Holds back what only settings look like: printed once or twice, with one and the same value.

    What is held back until the output ends is shown then, unless it came before the figures that
    were shown, as settings do.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, float] = {}
        self._shown: set[str] = set()
        self._waiting: list[Figure] = []
        self._place = self._begun = 0
        self._first_place: dict[str, int] = {}
        self._last_place: dict[str, int] = {}

    def take(self, figures: list[Figure], *, final: bool) -> list[Figure]:
        """Return what may be shown of `figures` and of those before. `final`: all of them."""
        for series, _, value, _ in figures:
            self._counts[series] += 1
            self._place += 1
            self._first_place.setdefault(series, self._place)
            self._last_place[series] = self._place
            if self._counts[series] > 2 or value != self._first.setdefault(series, value):
                self._shown.add(series)
                self._begun = min(self._begun or self._place, self._first_place[series])
        found = [*self._waiting, *figures]
        if final:
            return [each for each in found if self._last_place[each.series] >= self._begun]
        self._waiting = [figure for figure in found if figure.series not in self._shown]
        return [figure for figure in found if figure.series in self._shown]


def series_name(name: str, group: str = "train") -> str:
    """Return the series for a name in a line, such as `validation/loss` for `Val loss`.

    Empty if it is no name of a measured value. `group`: the first part of the series of a name
    that does not say it.
    """
    name = _without_fillers(name.strip(" ._/-"))
    if (found := _PREFIX.match(name)) or (found := _SUFFIX.search(name)):
        group = _group(found[1])
        name = name[: found.start()] + name[found.end() :]
        if numbered := _SET_NUMBER.match(name):  # `valid_1 auc`: one of several sets
            suffix = "" if numbered[1] == "0" else f"_{numbered[1]}"
            name = name[numbered.end() :] + suffix
    name = _without_fillers(name)
    if not _WANTED.search(name) or _NOT_WANTED.search(name):
        return ""
    name = name.lower()
    return f"{group}/{_NAMES.get(name, name.replace(' ', '_'))}"


def _set_name(name: str) -> str:
    """Return the set that a name alone means, such as `validation` for `Val`; empty: none."""
    name = _without_fillers(name.strip(" ._/-")).lower()
    return _LEARN.get(name) or (_group(name) if re.fullmatch(_GROUP, name) else "")


def is_of_validation(series: str) -> bool:
    """Whether the steps of a training cannot tell these figures: those of a validation or test."""
    return series.startswith(("validation/", "test/"))


def is_of_steps(series: str) -> bool:
    """Whether the steps of a training tell these figures by themselves."""
    return _OF_STEPS.match(series) is not None


def line_key(line: str) -> str:
    """Return what stays of a line whatever its encoding: its printable ASCII, without spaces."""
    return _NOT_IN_KEY.sub("", line)


def _group(word: str) -> str:
    """Return the first part of a series for `val`, `test`, `train` or the like in a line."""
    found = {"te": "test", "tr": "train"}
    return found.get(word[:2].lower(), "validation")


def _without_fillers(name: str) -> str:
    while filler := _FILLERS.match(name):
        name = name[filler.end() :]
    return name
