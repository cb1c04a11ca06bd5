"""Reads figures from lines of output, such as `step 20 | loss: 0.12`: the last resort."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LONGEST_LINE = 2000
"""Characters; longer lines are data, and not for people."""

MOST_OF_A_LINE = 16
MOST_SERIES = 100

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f]")
_NUMBER = r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b"
_FIGURE = re.compile(
    rf"(?<![\w./-])([A-Za-z][A-Za-z0-9_/@.-]*(?: [A-Za-z][A-Za-z0-9_/@-]*){{0,2}})"
    rf"[\"']?\s*(?:[:=]\s*|\s+)\(?({_NUMBER})\s*(%)?(?![\w.]|:\d|/\d|-\d)",
    re.IGNORECASE,
)
"""A name of up to three words, then a number that begins no time, date or fraction."""

_COUNT = re.compile(
    r"(?<![\w.])(?:global[ _]step|step|iter(?:ation)?|it)s?\s*[:=#]?\s*\[?\s*(\d+)(?![\w.]*\.\d)",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?<![\w.])epoch\s*[:=#]?\s*\[?\s*(\d+)", re.IGNORECASE)
_WANTED = re.compile(
    r"loss|acc(?!um|ess|oun|el)|error|err$|perplexity|ppl|nll|bpc|bpb|elbo|mse|mae|rmse|psnr|ssim|fid|auc|f1|bleu"
    r"|rouge|wer|cer|iou|map|dice|precision|recall|score|reward|return|lr$|learning[ _]rate"
    r"|grad[ _]?norm|norm$|top[ -]?[15]|r2|kl",
    re.IGNORECASE,
)
"""Names of what is measured in a training; times, sizes and counts are no curves."""

_NOT_WANTED = re.compile(r"time|eta|elapsed|size|batch|worker|device|count|number|num_|/s$", re.I)
_GROUP = r"(val(?:id(?:ation)?)?|eval(?:uation)?|dev|test(?:ing)?|train(?:ing)?)"
_PREFIX = re.compile(rf"^{_GROUP}[ _/.-]+", re.I)
_SUFFIX = re.compile(rf"(?:[ _]on)?[ _/.-]+{_GROUP}$", re.I)
_LINE = re.compile(rf"^\W*{_GROUP}\b", re.I)
"""What its figures are of, if they do not say it themselves."""

_FILLERS = re.compile(
    r"^(?!mean[ _](?:squared|absolute))"  # these are names of figures
    r"(?:and|the|using|with|info|debug|warning|current|avg|average|mean|total|running|epoch|step"
    r"|iter|done|finished|completed)[ _]",
    re.I,
)
_MESSAGE = re.compile(r"^(?:[IWEF]\d{4} |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )")
"""The beginning of a message of TensorFlow's libraries, whose numbers are codes."""

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
        self.epoch = 0
        """The last epoch that a line named."""

    def read(self, piece: bytes) -> Iterator[Figure]:
        """Yield the figures of the lines that `piece` completes."""
        text = self._rest + piece.decode(errors="replace")
        *lines, self._rest = re.split(r"[\r\n]+", text)
        self._rest = self._rest[-2 * LONGEST_LINE :]
        for line in lines:
            if line and len(line) <= LONGEST_LINE and not _MESSAGE.match(line):
                yield from self._figures(_ESCAPES.sub("", line), line)

    def _figures(self, line: str, raw: str) -> Iterator[Figure]:
        if epoch := _EPOCH.search(line):
            self.epoch = min(int(epoch[1]), 2**31)
        found = {}
        begins = _LINE.match(line)
        group = _group(begins[1]) if begins else "train"
        for name, number, percent in _FIGURE.findall(line)[:MOST_OF_A_LINE]:
            if series := series_name(name, group):
                found[series] = float(number) / (100 if percent else 1)
        if not found:
            return
        self._lines += 1
        count = _COUNT.search(line)
        shared = Line(line_key(raw)) if any(map(is_of_validation, found)) else None
        for series, value in found.items():
            if series not in self._last and len(self._last) >= MOST_SERIES:
                continue
            last = self._last.get(series, -1)
            step = min(int(count[1]), 2**31) if count else self._lines
            step = step if step > last else last + 1
            self._last[series] = step
            yield Figure(series, step, value, shared)


class RepeatedFigures:
    """Holds back what only settings look like: printed once or twice, with one and the same value.

    What is held back until the output ends is shown then.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, float] = {}
        self._shown: set[str] = set()
        self._waiting: list[Figure] = []

    def take(self, figures: list[Figure], *, final: bool) -> list[Figure]:
        """Return what may be shown of `figures` and of those before. `final`: all of them."""
        for series, _, value, _ in figures:
            self._counts[series] += 1
            if self._counts[series] > 2 or value != self._first.setdefault(series, value):
                self._shown.add(series)
        found = [*self._waiting, *figures]
        if final:
            return found
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
    name = _without_fillers(name)
    if not _WANTED.search(name) or _NOT_WANTED.search(name):
        return ""
    name = name.lower()
    return f"{group}/{_NAMES.get(name, name.replace(' ', '_'))}"


def is_of_validation(series: str) -> bool:
    """Whether the steps of a training cannot tell these figures: those of a validation or test."""
    return series.startswith(("validation/", "test/"))


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
