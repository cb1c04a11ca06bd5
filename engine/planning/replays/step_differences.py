"""The first difference within one step of two runs, in the order in which a step is computed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeVar

from engine.planning.results import Inspection
from engine.training.probes.step_inspection import LayerFigures, ParameterFigures, SampleFigures

Cause = Literal["samples", "between", "weights", "layer", "loss", "gradient", "update"]

_LEAST = 1e-4
"""A gradient that is this small beside that of the whole model is what rounding has left of 0, such
as that of a bias before a BatchNorm; optimizers such as Adam make full updates of it."""

_EXACT = 1e-9
"""Beside it, inputs of samples are read from the same file."""

_MOST_NAMED = 3
_FAMILIES = {"linear": "dense", "batchnorm": "batchnormalization", "maxpool": "maxpooling"}
_RANDOM = ("dropout", "noise", "random")
_IN_EVALUATION = (*_RANDOM, "batchnorm")


class Finding(NamedTuple):
    """Where two runs differ first within a step."""

    cause: Cause
    name: str
    """Of the layer or the parameter; empty: there is none."""

    text: str
    """In sentences."""

    size: float
    """The relative difference; infinite: it is none of numbers."""


class StepOfRun(NamedTuple):
    """One step of a run."""

    run: str
    """Such as `run 12`."""

    inspection: Inspection
    loss: float
    """The recorded one; NaN: there is none."""


A = TypeVar("A", LayerFigures, ParameterFigures)


def initial_difference(
    one: StepOfRun, other: StepOfRun, tolerance: float, *, is_trained: bool
) -> Finding | None:
    """Return where the weights before the step differ; `is_trained`: others have made them."""
    pairs = _paired_parameters(one, other)
    sizes = [(a, b, relative(a.weight_norm, b.weight_norm)) for a, b in pairs]
    least = _least(one, other) if tolerance and is_trained else 0.0
    found = [each for each in sizes if each[2] > tolerance and not _is_noise(*each[:2], least)]
    if not found:
        return None
    a, b, size = found[0]
    text = (
        f"{_weights_of(len(found), len(pairs), a.name)} differ before the step: the norm is "
        f"{_against(a.weight_norm, b.weight_norm, one, other)}."
    )
    return Finding("weights", a.name, text, size)


def first_difference(one: StepOfRun, other: StepOfRun, tolerance: float) -> Finding | None:
    """Return where the step itself differs first, given equal weights before it."""
    return (
        sample_difference(one, other, tolerance)
        or _layer_difference(one, other, tolerance)
        or _loss_difference(one, other, tolerance)
        or _gradient_difference(one, other, tolerance)
        or _update_difference(one, other, tolerance)
    )


def unmatched(one: StepOfRun, other: StepOfRun) -> list[str]:
    """Return what cannot be compared, and why, in sentences."""
    notes = []
    a, b = one.inspection, other.inspection
    for kind, first, second in (
        ("layers", a.layers, b.layers),
        ("parameters", a.parameters, b.parameters),
    ):
        pairs = _paired_layers(a, b) if kind == "layers" else _paired_parameters(one, other)
        for run, mine, at in ((one.run, first, 0), (other.run, second, 1)):
            matched = {id(pair[at]) for pair in pairs}
            alone = [each.name or "the model" for each in mine if id(each) not in matched]
            if alone and mine:
                notes.append(
                    f"{_capital(kind)} of {run} without a counterpart in the other: "
                    f"{_listed(alone)}."
                )
    if bool(a.layers) != bool(b.layers):
        notes.append(f"The outputs of layers are not seen in {(other if a.layers else one).run}.")
    if bool(a.samples) != bool(b.samples):
        notes.append(f"The samples are not known of {(other if a.samples else one).run}.")
    if a.in_evaluation != b.in_evaluation:
        seen = (one if a.in_evaluation else other).run
        notes.append(
            f"Outputs and gradients of {seen} were computed in evaluation mode, and the others in "
            "training mode: they are compared up to the first layer that differs between both."
        )
    return notes


def relative(one: float, other: float, scale: float = 0.0) -> float:
    """Return the difference of two numbers beside the larger one, or `scale` if that is more."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    return abs(one - other) / max(abs(one), abs(other), scale)


# Samples


def sample_difference(one: StepOfRun, other: StepOfRun, tolerance: float) -> Finding | None:
    """Return how the samples of the step differ."""
    a, b = one.inspection, other.inspection
    if not (a.samples and b.samples):
        return None
    text = ""
    if a.samples_in_all != b.samples_in_all:
        text = (
            f"The step has {a.samples_in_all:,} samples in {one.run} and {b.samples_in_all:,} in "
            f"{other.run}."
        )
    elif a.samples_in_all == len(a.samples) == len(b.samples):
        text = _other_samples(one, other, tolerance)
    return Finding("samples", "", text, math.inf) if text else None


def _other_samples(one: StepOfRun, other: StepOfRun, tolerance: float) -> str:
    first = [_key(each) for each in one.inspection.samples]
    second = [_key(each) for each in other.inspection.samples]
    mine, theirs = Counter(first) - Counter(second), Counter(second) - Counter(first)
    if mine:
        return (
            f"The runs train on different samples: {_listed(sorted(mine))} only in {one.run}, "
            f"{_listed(sorted(theirs))} only in {other.run}; "
            f"{len(first) - mine.total():,} of {len(first):,} are in both."
        )
    if len(set(first)) < len(first):  # the rows of several ranks have no names
        return ""
    by_name = {_key(each): each for each in other.inspection.samples}
    for sample in one.inspection.samples:
        twin = by_name[_key(sample)]
        if sample.target != twin.target:
            return (
                f"{_capital(sample.name)} has the target {sample.target or 'none'} in {one.run} "
                f"and {twin.target or 'none'} in {other.run}."
            )
        for name in ("mean", "smallest", "largest", "not_finite"):
            x, y = (float(getattr(each.inputs, name)) for each in (sample, twin))
            scale = max(abs(sample.inputs.smallest), abs(sample.inputs.largest), 0.0)
            if relative(x, y, scale) > max(tolerance, _EXACT):
                return (
                    f"{_capital(sample.name)} has other inputs: {name.replace('_', ' ')} "
                    f"{_against(x, y, one, other)}."
                )
    return ""


def _key(sample: SampleFigures) -> str:
    return sample.name.partition(" (")[0]  # only one framework may know the file


# Layers


def _layer_difference(one: StepOfRun, other: StepOfRun, tolerance: float) -> Finding | None:
    is_mixed = one.inspection.in_evaluation != other.inspection.in_evaluation
    before = ""
    for a, b in _paired_layers(one.inspection, other.inspection):
        if is_mixed and _is_one_of(a, _IN_EVALUATION):
            return None
        size, name, x, y = max(_sizes(a, b))
        if size <= tolerance:
            before = _titled(a)
            continue
        where = f"The output of {_titled(a)}" + (
            f", {_titled(b)} in {other.run}," if _titled(a) != _titled(b) else ""
        )
        text = [f"{where} differs: {name} {_against(x, y, one, other)}."]
        text += _why(a, b, one, other)
        if before:
            text.append(f"The output of {before}, which comes before it, is the same.")
        return Finding("layer", a.name, " ".join(text), size)
    return None


def _why(a: LayerFigures, b: LayerFigures, one: StepOfRun, other: StepOfRun) -> Iterator[str]:
    """Yield what is known of why the outputs of a layer differ."""
    if None not in (a.is_training, b.is_training) and a.is_training != b.is_training:
        first, second = (one, other) if a.is_training else (other, one)
        yield f"It is in training mode in {first.run}, and in evaluation mode in {second.run}."
    elif _is_one_of(a, _RANDOM):
        yield "It draws random numbers: other ranks and frameworks draw others."
    if a.kind == b.kind and a.settings != b.settings:
        yield f"It is made with {_differing(a.settings, b.settings, one, other)}."
    elif "batchnorm" in a.kind.lower():
        yield "A BatchNorm that is not synchronised sees the samples of its own replica alone."


def _differing(first: str, second: str, one: StepOfRun, other: StepOfRun) -> str:
    """Return which of two lists of settings are not in both."""
    mine, theirs = (re.split(r", (?=\w+=)", text) for text in (first, second))
    own, others = [s for s in mine if s not in theirs], [s for s in theirs if s not in mine]
    first_text, second_text = _listed(own) or "nothing more", _listed(others) or "nothing more"
    return f"{first_text} in {one.run}, and {second_text} in {other.run}"


def _sizes(a: LayerFigures, b: LayerFigures) -> Iterator[tuple[float, str, float, float]]:
    """Yield the relative difference of each figure, its name, and the two numbers."""
    yield 0.0, "", 0.0, 0.0
    if a.count and b.count and a.count != b.count:
        yield math.inf, "the count of numbers", float(a.count), float(b.count)
    yield relative(a.not_finite, b.not_finite, 1.0), "share not finite", a.not_finite, b.not_finite
    ends = [abs(x) for x in (a.smallest, a.largest, b.smallest, b.largest) if math.isfinite(x)]
    widest = max(ends, default=0.0)
    middle = max(
        (x for x in (a.root_mean_square, b.root_mean_square) if math.isfinite(x)), default=widest
    )
    yield relative(a.mean, b.mean, middle), "mean", a.mean, b.mean
    yield relative(a.mean_size, b.mean_size, middle), "mean size", a.mean_size, b.mean_size
    x, y = a.root_mean_square, b.root_mean_square
    yield relative(x, y, middle), "root mean square", x, y
    yield relative(a.smallest, b.smallest, widest), "smallest", a.smallest, b.smallest
    yield relative(a.largest, b.largest, widest), "largest", a.largest, b.largest


def _paired_layers(one: Inspection, other: Inspection) -> list[tuple[LayerFigures, LayerFigures]]:
    return _paired(one.layers, other.layers, lambda each: (_family(each.kind), each.count))


def _family(kind: str) -> str:
    """Return what the same layer is called in both frameworks."""
    plain = re.sub(r"^sync|[123]d$", "", kind.lower())
    return _FAMILIES.get(plain, plain)


def _is_one_of(layer: LayerFigures, words: Sequence[str]) -> bool:
    return any(word in layer.kind.lower() for word in words)


# Loss, gradients, update


def _loss_difference(one: StepOfRun, other: StepOfRun, tolerance: float) -> Finding | None:
    size = relative(one.loss, other.loss)
    has_layers = bool(_paired_layers(one.inspection, other.inspection))
    if not size > tolerance:
        return None
    what = (
        "The loss differs, and samples, weights and outputs of layers are the same"
        if has_layers and one.inspection.in_evaluation == other.inspection.in_evaluation
        else "The loss differs, and samples and weights are the same"
    )
    return Finding("loss", "", f"{what}: {_against(one.loss, other.loss, one, other)}.", size)


def _gradient_difference(one: StepOfRun, other: StepOfRun, tolerance: float) -> Finding | None:
    if one.inspection.in_evaluation != other.inspection.in_evaluation:
        return None
    pairs, least = _paired_parameters(one, other), _least(one, other) if tolerance else 0.0
    found = []
    for a, b in reversed(pairs):  # in the backward pass the last layers come first
        x, y = a.gradient_norm, b.gradient_norm
        size = math.inf if (x is None) != (y is None) else relative(x or 0.0, y or 0.0)
        if size > tolerance and max(x or 0.0, y or 0.0) > least:
            found.append((a, x, y, size))
    if not found:
        return None
    a, x, y, size = found[0]
    text = (
        f"The gradient of {_names(len(found), len(pairs), a.name)} differs, and the loss is the "
        f"same: the norm is {_against(x, y, one, other)}."
    )
    return Finding("gradient", a.name, text, size)


def _update_difference(one: StepOfRun, other: StepOfRun, tolerance: float) -> Finding | None:
    pairs, least = _paired_parameters(one, other), _least(one, other) if tolerance else 0.0
    sizes = [(a, b, relative(a.update_norm, b.update_norm)) for a, b in pairs]
    found = [each for each in sizes if each[2] > tolerance and not _is_noise(*each[:2], least)]
    if not found:
        return None
    a, b, size = found[0]
    same = (
        ""
        if one.inspection.in_evaluation != other.inspection.in_evaluation
        else (", and the gradient is the same")
    )
    text = (
        f"The update of {_names(len(found), len(pairs), a.name)} differs{same}: the norm is "
        f"{_against(a.update_norm, b.update_norm, one, other)}."
    )
    if a.optimizer == b.optimizer:
        text += " Its settings are the same: look at clipping, and at what the optimizer keeps."
    elif a.optimizer and b.optimizer:
        text += f" It is made with {_differing(a.optimizer, b.optimizer, one, other)}."
    return Finding("update", a.name, text, size)


def _is_noise(a: ParameterFigures, b: ParameterFigures, least: float) -> bool:
    """Whether what updates a parameter is what rounding has left."""
    return 0.0 < min(a.gradient_norm or 0.0, b.gradient_norm or 0.0) <= least


def _least(one: StepOfRun, other: StepOfRun) -> float:
    """Return the gradient norm up to which a gradient is what rounding has left."""
    norms = [
        p.gradient_norm
        for step in (one, other)
        for p in step.inspection.parameters
        if p.gradient_norm is not None and math.isfinite(p.gradient_norm)
    ]
    return _LEAST * max(norms, default=0.0)


def _paired_parameters(
    one: StepOfRun, other: StepOfRun
) -> list[tuple[ParameterFigures, ParameterFigures]]:
    first, second = one.inspection.parameters, other.inspection.parameters
    if len(first) == len(second) and not {p.name for p in first} & {p.name for p in second}:
        return list(zip(first, second, strict=True))
    return _paired(first, second, lambda each: each.name.rpartition(".")[2])


# Pairs and words


def _paired(
    first: Sequence[A], second: Sequence[A], kind_of: Callable[[A], object]
) -> list[tuple[A, A]]:
    """Return what has its counterpart: by name, or by order and kind where no name is in both."""
    by_name = {_plain(each.name): each for each in second}
    pairs = [(each, by_name[_plain(each.name)]) for each in first if _plain(each.name) in by_name]
    if any(a.name for a, _ in pairs):  # more than the model as a whole
        return pairs
    matcher = SequenceMatcher(
        None, [repr(kind_of(each)) for each in first], [repr(kind_of(each)) for each in second],
        autojunk=False,
    )  # fmt: skip
    return [
        (first[block.a + n], second[block.b + n])
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    ]


def _plain(name: str) -> str:
    """Return a name as every backend of Keras has it."""
    return name.removeprefix("weights.")


def _titled(layer: LayerFigures) -> str:
    return f"{layer.name or 'the model'} ({layer.kind})"


def _against(x: float | None, y: float | None, one: StepOfRun, other: StepOfRun) -> str:
    digits = 4
    while digits < 17 and _number(x, digits) == _number(y, digits):
        digits += 1
    return f"{_number(x, digits)} in {one.run} and {_number(y, digits)} in {other.run}"


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "none"
    is_whole = math.isfinite(value) and value == int(value)
    return f"{int(value):,}" if is_whole else f"{value:.{digits}g}"


def _weights_of(count: int, of: int, name: str) -> str:
    if count == of > 1:
        return f"The weights of all {of} parameters, the first of which is {name},"
    return f"The weights of {_names(count, of, name)}"


def _names(count: int, of: int, name: str) -> str:
    return name if count == 1 else f"{name} and {count - 1} more of {of} parameters"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
