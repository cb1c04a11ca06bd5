"""What race, preflight, memory estimate and batch search found: the types, and their files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from engine.doctor.finding import Change, Finding
from engine.spec.run_spec import RunSpec
from engine.training.probes.step_inspection import LayerFigures, ParameterFigures, SampleFigures


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What one entry of a race has shown: a strategy with batch, precision and devices."""

    strategy: str
    devices: tuple[str, ...]
    batch_size: int
    precision: str
    samples_per_second: float | None = None
    """Of all replicas together; None: it did not do its steps, see `problem`."""

    steps: int = 0
    """Those that were measured, without the warm-up."""

    noise: float = 0.0
    """Half the distance of the quartiles of `samples_per_second`, as a share of it: a difference
    that is smaller says nothing."""

    is_tied: bool = False
    """Whether the first entry is no faster than this one, within the noise of both."""

    efficiency: float | None = None
    """Samples per second, divided by the number of devices times those of one device with the same
    framework, precision and global batch (strong scaling); 1 is ideal. None: nothing to compare
    with was raced."""

    memory: dict[str, float] = {}
    """The most bytes that its workers held, by device."""

    first_step_seconds: float = 0.0
    joules: float | None = None
    """Energy for one sample; None: the driver does not tell it."""

    shares: dict[str, float] = {}
    """Of the step time: `compute`, `communication`, `data`."""

    problem: str = ""
    spec: RunSpec
    """What fills the form."""


class Race(msgspec.Struct, frozen=True, kw_only=True, tag="race"):
    """A race that is over or was stopped; the fastest entry comes first."""

    entries: tuple[Entry, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    notices: tuple[str, ...] = ()
    """What disturbed the figures, a sentence each."""

    is_stopped: bool = False
    """Whether the person stopped it: entries may be missing."""


class Preflight(msgspec.Struct, frozen=True, kw_only=True, tag="preflight"):
    """A preflight that is over or was stopped."""

    spec: RunSpec
    findings: tuple[Finding, ...] = ()
    figures: dict[str, float] = {}
    """Numbers for pictures, such as `all_reduce/1048576/bytes_per_second`."""

    expected_seconds: float = 0.0
    """Of the whole run; 0: not known."""

    expected_wh: float = 0.0
    seconds: float = 0.0
    """That the preflight took."""


class DeviceEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted peak memory of one device, in bytes, by what holds it."""

    device: str
    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    other: float = 0.0
    """Buckets, gathered blocks, averaged weights, the cache of the allocator, the framework itself
    and, of a GPU, what other programs hold."""

    total: float = 0.0
    available: float = 0.0
    """What the device has, or the limit that was given."""


class MemoryEstimate(msgspec.Struct, frozen=True, kw_only=True, tag="memory"):
    """Predicted peak memory of a run."""

    devices: tuple[DeviceEstimate, ...] = ()
    text: str = ""
    """Such as `Fits: about 61 of 80 GiB.`"""

    fits: bool | None = None
    """None: not known."""

    problem: str = ""
    """Why nothing is predicted; empty: it is."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One batch size that was tried."""

    batch_size: int
    fits: bool
    samples_per_second: float = 0.0
    memory: float = 0.0
    """The most bytes that one device needed; 0: it did not do its steps."""

    problem: str = ""
    is_failure: bool = False
    """Whether the problem is another one than memory."""


class BatchSearch(msgspec.Struct, frozen=True, kw_only=True, tag="batch"):
    """A search for a batch size that is over or was stopped."""

    tried: tuple[Tried, ...] = ()
    largest: int = 0
    """The largest global batch that fits; 0: none does."""

    fastest: int = 0
    """The global batch with the most samples per second."""

    accumulation: int = 1
    """With it, the global batch that was asked for fits."""

    text: str = ""
    problem: str = ""
    change: Change | None = None
    """What is recommended; the first of `changes`."""

    changes: tuple[Change, ...] = ()
    """What the form can be filled with: accumulation, if the batch does not fit without; the
    largest batch, and the fastest."""


class CheckResult(msgspec.Struct, frozen=True, tag="check"):
    """What a check has found, as `check --json` prints it."""

    recipe: str = ""
    """The path of its file, or the name of a built-in one."""

    framework: str = ""
    strategy: str = ""
    devices: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    ok: bool = False
    problem: str = ""
    """Why it cannot train, in a sentence; empty: it can."""

    where: str = ""
    """File and line of the problem, if they are known."""

    details: str = ""
    notices: tuple[str, ...] = ()
    """What should be known, though it trains: one sentence each."""

    parameters: int = 0
    steps_per_epoch: int = 0
    loss: float | None = None
    """Of the first batch."""

    metrics: tuple[str, ...] = ()
    """The series that it gave."""

    seconds: float = 0.0


class StrategyTrial(msgspec.Struct, frozen=True):
    """What came out when a strategy trained in one precision."""

    finding: Finding
    log: str = ""
    """The end of the logs of a run that failed."""


class StrategyTrials(msgspec.Struct, frozen=True, tag="trials"):
    """What came out for every strategy and precision."""

    trials: tuple[StrategyTrial, ...]


class Difference(msgspec.Struct, frozen=True):
    """The first value of a replay that is not the recorded one."""

    step: int
    series: str
    """Such as `loss`."""

    recorded: str
    """As Python writes the number; JSON has none for NaN and infinity."""

    replayed: str


class RecordedStep(msgspec.Struct, frozen=True):
    """What a run has recorded of one step near a replayed one."""

    step: int
    loss: float
    gradient_norm: float | None = None
    """None: the run does not record it."""

    is_equal: bool | None = None
    """Whether the replay gave the same bits; None: it did not train this step."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a replayed step, on all ranks together."""

    answer: str
    """Which sample and which layer made the step, in sentences."""

    samples: tuple[SampleFigures, ...] = ()
    """The most suspicious ones: inputs that are not finite first, then the largest loss."""

    samples_in_all: int = 0
    layers: tuple[LayerFigures, ...] = ()
    parameters: tuple[ParameterFigures, ...] = ()
    in_evaluation: bool = False
    """Whether outputs of layers and gradients were computed in evaluation mode."""

    notes: tuple[str, ...] = ()
    """How the figures were computed, and what could not be found out, in sentences."""


class Replay(msgspec.Struct, frozen=True, kw_only=True, tag="replay"):
    """A step of a run that was trained again, with those since the checkpoint before it."""

    run: str
    step: int
    begin: int
    """The step after which the replay began."""

    checkpoint: str
    """Its name; empty: the replay began with the run."""

    equal: int
    """Steps whose values all are equal bit for bit."""

    difference: Difference | None = None
    reasons: tuple[str, ...] = ()
    """Why there may be a difference, a sentence each."""

    around: tuple[RecordedStep, ...] = ()
    """The recorded steps near the replayed one, in order."""

    kept: str = ""
    """The name of the checkpoint of the step, which the run has now; empty: it was not asked for,
    or there is a difference."""

    inspection: Inspection | None = None
    """What was seen of the step; None: the ranks have written nothing of it."""

    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """How the replayed steps compare with the recorded ones."""
        steps = self.step - self.begin
        text = f"{self.equal:,} of {steps:,} step{'s' * (steps != 1)} are equal bit for bit"
        if (found := self.difference) is None:
            return f"{text}."
        return (
            f"{text}. The first difference is in {found.series} at step {found.step:,}: "
            f"{found.recorded} was recorded, {found.replayed} was replayed."
        )


class SettingDifference(msgspec.Struct, frozen=True):
    """A setting that two runs do not share."""

    title: str
    first: str
    second: str


class Divergence(msgspec.Struct, frozen=True, kw_only=True, tag="divergence"):
    """Where two runs begin to differ."""

    first: str
    second: str
    steps: int
    """The last step that both have recorded."""

    equal: int
    """The step up to which all values that both have recorded are equal bit for bit."""

    tolerance: float
    """The relative difference that rounding may make in the first step; in step n, n times it."""

    step: int = 0
    """The first one at which they differ; 0: there is none."""

    cause: str = ""
    """What differs first in this step: `samples`, `weights`, `layer`, `loss`, `gradient`, `update`;
    `between`: the weights before it, and nothing in the step before; `rounding`: no more than that.
    Empty: nothing does, or it is not known."""

    name: str = ""
    """Of the layer or the parameter."""

    curves: str
    """How the recorded values compare, in a sentence."""

    answer: str
    """What differs first, in sentences."""

    settings: tuple[SettingDifference, ...] = ()
    recipe: tuple[str, ...] = ()
    """The lines in which the recipes differ, as `diff` writes them."""

    notes: tuple[str, ...] = ()
    """What could not be compared, in sentences."""

    seconds: float = 0.0


Result = (
    Divergence
    | Replay
    | Race
    | Preflight
    | MemoryEstimate
    | BatchSearch
    | CheckResult
    | StrategyTrials
)


class Doing(msgspec.Struct, frozen=True, tag="doing"):
    """What is measured now."""

    text: str
    done: int = 0
    of: int = 0
    strategy: str = ""
    """The name of a strategy in `text`, for which a window has a title; empty: there is none."""


class Raced(msgspec.Struct, frozen=True, tag="raced"):
    """One more entry of a race."""

    entry: Entry


class Found(msgspec.Struct, frozen=True, tag="found"):
    """One more finding of a preflight."""

    finding: Finding


class Sized(msgspec.Struct, frozen=True, tag="sized"):
    """One more batch size was tried."""

    tried: Tried


class TriedStrategy(msgspec.Struct, frozen=True, tag="tried_strategy"):
    """One more strategy was tried."""

    trial: StrategyTrial


News = Doing | Raced | Found | Sized | TriedStrategy

A = TypeVar("A")


def with_texts(answer: A, change: Callable[[str], str]) -> A:
    """Return news or a result with every text in it, also of its specs, as `change` returns it."""
    return msgspec.convert(_changed(msgspec.to_builtins(answer), change), type(answer))


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case list() | tuple():
            return [_changed(each, change) for each in value]
        case dict():
            return {name: _changed(each, change) for name, each in value.items()}
        case _:
            return value
