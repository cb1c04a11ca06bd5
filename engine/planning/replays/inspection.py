"""What the ranks saw of a replayed step, together: which sample and which layer made it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from engine.planning.results import Inspection
from engine.training.probes.step_inspection import (
    MOST_SAMPLES,
    LayerFigures,
    ParameterFigures,
    RankInspection,
    SampleFigures,
    joined,
    read_inspections,
    suspicion,
)

_STANDS_OUT = 5.0
"""How many times the median of its batch the loss or the gradient norm of a sample is, from which
it is named; the same for the inputs of a sample beside those of the others."""

_LARGE_UPDATE = 0.5
"""The norm of an update, as a share of that of the weights, from which it is named."""

_OF_STEP = (
    "Losses of samples are from the outputs of the step itself, with its batch and its random "
    "state; gradients of samples are of each sample alone, in evaluation mode."
)
_OF_RECIPE = (
    "Losses of samples are what sample_loss() of the recipe gives for the batch{how}; gradients of "
    "samples are of each sample alone, in evaluation mode."
)
_ALONE = "Losses and gradients of samples are of each sample alone, in evaluation mode."


class StepContext(NamedTuple):
    """What the run has recorded of the step and of the one before; None: nothing."""

    loss_before: float | None = None
    rate: float | None = None
    """The learning rate."""

    rate_before: float | None = None


def read_inspection(folder: Path, context: StepContext) -> Inspection | None:
    """Return what the ranks of the run in `folder` saw of a step; None: they wrote nothing.

    Raises OSError, msgspec.MsgspecError.
    """
    ranks = read_inspections(folder)
    if not ranks:
        return None
    samples = sorted((s for rank in ranks for s in rank.samples), key=suspicion)[:MOST_SAMPLES]
    layers, parameters = _layers(ranks), _parameters(ranks)
    return Inspection(
        answer=" ".join(_answer(samples, layers, parameters, context)),
        samples=tuple(samples),
        samples_in_all=sum(rank.samples_in_all for rank in ranks),
        layers=layers,
        parameters=parameters,
        in_evaluation=any(rank.in_evaluation for rank in ranks),
        notes=(
            _how_computed(ranks),
            *dict.fromkeys(note for rank in ranks for note in rank.notes),
        ),
    )


def _how_computed(ranks: Sequence[RankInspection]) -> str:
    is_alone = any(rank.losses_alone for rank in ranks)
    if all(rank.own_losses for rank in ranks if rank.samples):
        return _OF_RECIPE.format(how=", in evaluation mode" if is_alone else "")
    return _ALONE if is_alone else _OF_STEP


def _layers(ranks: Sequence[RankInspection]) -> tuple[LayerFigures, ...]:
    """Return the layers of the model over all ranks, in the order of the forward pass."""
    found: dict[str, list[LayerFigures]] = {}
    for rank in ranks:
        for layer in rank.layers:
            found.setdefault(layer.name, []).append(layer)
    return tuple(joined(of) for of in found.values())


def _parameters(ranks: Sequence[RankInspection]) -> tuple[ParameterFigures, ...]:
    """Return the parameters of the whole model: the norms of parts are put together."""
    found: dict[str, ParameterFigures] = {}
    for rank in ranks:
        for own in rank.parameters:
            known = found.setdefault(own.name, own)
            if known is not own and own.is_part:
                found[own.name] = replace(
                    own,
                    weight_norm=math.hypot(known.weight_norm, own.weight_norm),
                    gradient_norm=_hypot(known.gradient_norm, own.gradient_norm),
                    update_norm=math.hypot(known.update_norm, own.update_norm),
                )
    return tuple(found.values())


def _hypot(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else math.hypot(one, other)


def _answer(
    samples: Sequence[SampleFigures],
    layers: Sequence[LayerFigures],
    parameters: Sequence[ParameterFigures],
    context: StepContext,
) -> Iterator[str]:
    """Yield what made the step, in sentences: the earliest cause that can be seen."""
    weights = [each.name for each in parameters if not math.isfinite(each.weight_norm)]
    bad_inputs = [sample for sample in samples if sample.inputs.not_finite]
    bad_losses = [s for s in samples if s.loss is not None and not math.isfinite(s.loss)]
    first = next((layer for layer in layers if layer.not_finite), None)
    # In the backward pass the last layers come first.
    gradients = [p.name for p in reversed(parameters) if not math.isfinite(p.gradient_norm or 0.0)]
    if weights:
        named = _listed(weights)
        yield f"Weights were not finite before the step: {named}. Look at an earlier one."
        return
    if bad_inputs:
        yield _bad_inputs(bad_inputs)
    if first is not None:
        yield _first_layer(first, names_inputs=bool(bad_inputs))
    elif bad_losses:
        some = "No sample has a finite loss"
        if len(bad_losses) < len(samples):
            some = f"{_capital(_names(bad_losses))} {_has(bad_losses, 'no finite loss')}"
        yield f"{some}, and all inputs and outputs of layers are finite: the loss makes it of them."
    elif gradients:
        yield from _bad_gradients(gradients[0], samples)
    else:
        yield from _dead_layer(layers, parameters)
        yield from _spike(samples, parameters, context)
    yield from _large_update(parameters, context)


def _bad_inputs(samples: Sequence[SampleFigures]) -> str:
    count = samples[0].inputs.not_finite
    in_first = f" in {samples[0].name}" if len(samples) > 1 else ""
    return (
        f"{_capital(_names(samples))} {_has(samples, 'inputs')} that are not finite: "
        f"{count:,} number{'s' * (count != 1)}{in_first}."
    )


def _first_layer(layer: LayerFigures, *, names_inputs: bool) -> str:
    name = f"{layer.name} ({layer.kind})" if layer.name else f"the model ({layer.kind})"
    text = f"The first output that is not finite is that of {name}"
    if names_inputs:
        return f"{text}."
    if layer.samples:
        text = f"{text}, for {_listed(layer.samples)}"
    return f"{text}." if layer.has_finite_inputs else f"{text}; its inputs are not finite either."


def _bad_gradients(parameter: str, samples: Sequence[SampleFigures]) -> Iterator[str]:
    yield (
        "All losses and outputs of layers are finite. The first gradient that is not finite is "
        f"that of {parameter}."
    )
    alone = [
        sample
        for sample in samples
        if sample.gradient_norm is not None and not math.isfinite(sample.gradient_norm)
    ]
    if alone and len(alone) < len(samples):
        yield f"{_capital(_names(alone))} {_has(alone, 'such a gradient alone')}."


def _dead_layer(
    layers: Sequence[LayerFigures], parameters: Sequence[ParameterFigures]
) -> Iterator[str]:
    """Yield which layer's outputs are 0 for all samples: no layer before it learns."""
    of_some = [index for index, layer in enumerate(layers) if layer.smallest or layer.largest]
    dead = next((i for i, layer in enumerate(layers) if i not in of_some), None)
    if dead is None or not of_some or dead < of_some[0]:
        return  # the model has none, or its inputs are 0
    layer, before = layers[dead], layers[dead - 1]
    yield (
        f"All outputs of {layer.name} ({layer.kind}) are 0, for every sample; those of "
        f"{before.name} ({before.kind}) before it go from {before.smallest:.4g} to "
        f"{before.largest:.4g}."
    )


def _unmoved(parameters: Sequence[ParameterFigures]) -> Iterator[str]:
    """Yield which parameters have a gradient of 0, where others have one."""
    still = [each.name for each in parameters if each.gradient_norm == 0]
    if still and any(each.gradient_norm for each in parameters):
        yield f"The gradient of {_listed(still)} is 0: {_they(still)} not trained by this step."


def _they(names: Sequence[str]) -> str:
    return "it is" if len(names) == 1 else "they are"


def _spike(
    samples: Sequence[SampleFigures], parameters: Sequence[ParameterFigures], context: StepContext
) -> Iterator[str]:
    losses = [sample.loss for sample in samples if sample.loss is not None]
    if losses:
        yield from _odd_losses(samples, losses, context)
    yield from _unmoved(parameters)
    norms_of = {p.name: p.gradient_norm for p in parameters if p.gradient_norm}
    if norms_of:
        total = math.hypot(*norms_of.values())
        largest = max(norms_of, key=norms_of.__getitem__)
        share = (norms_of[largest] / total) ** 2
        yield (
            f"The largest gradient is that of {largest}: its norm is {norms_of[largest]:.4g} of "
            f"{total:.4g} in all ({share:.0%} of the square)."
        )


def _odd_losses(
    samples: Sequence[SampleFigures], losses: Sequence[float], context: StepContext
) -> Iterator[str]:
    """Yield which sample stands out by its loss, its gradient or its inputs, or that none does."""
    middle = statistics.median(losses)
    before = context.loss_before
    if before is not None and middle > _STANDS_OUT * abs(before):
        yield (
            f"All samples have large losses: their median is {middle:.4g}, and the loss of the "
            f"step before was {before:.4g}. Its update made them: look at that step."
        )
        return
    worst = max(samples, key=lambda each: -math.inf if each.loss is None else each.loss)
    if _stands_out(losses, worst.loss):
        yield (
            f"{_capital(_name(worst))} has the loss {worst.loss:.4g}, where the median of its "
            f"batch is {middle:.4g}."
        )
    else:
        yield (
            "Every value is finite, and no sample stands out by its loss: the losses go from "
            f"{min(losses):.4g} to {max(losses):.4g}."
        )
        norms = [s.gradient_norm for s in samples if s.gradient_norm is not None]
        steepest = max(samples, key=lambda each: each.gradient_norm or 0.0)
        if _stands_out(norms, steepest.gradient_norm):
            yield (
                f"{_capital(_name(steepest))} has the gradient norm {steepest.gradient_norm:.4g}, "
                f"where the median of those computed is {statistics.median(norms):.4g}."
            )
    sizes = [_size(each) for each in samples]
    largest = max(samples, key=_size)
    if _stands_out(sizes, _size(largest)):
        yield (
            f"The inputs of {largest.name} reach {_size(largest):.4g}, where the median of the "
            f"batch is {statistics.median(sizes):.4g}."
        )


def _large_update(parameters: Sequence[ParameterFigures], context: StepContext) -> Iterator[str]:
    """Yield how much the step changes the weights, if that is very much."""
    weights = math.hypot(*(each.weight_norm for each in parameters))
    updates = math.hypot(*(each.update_norm for each in parameters))
    if weights and math.isfinite(updates) and updates > _LARGE_UPDATE * weights:
        text = f"The update of the step is {updates / weights:.0%} of all weights, by their norms"
        rate, before = context.rate, context.rate_before
        if rate and before and rate > 2 * before:
            text = (
                f"{text}: the learning rate is {rate:.4g}, and was {before:.4g} in the step before"
            )
        yield f"{text}."


def _size(sample: SampleFigures) -> float:
    ends = (abs(sample.inputs.smallest), abs(sample.inputs.largest))
    return max((end for end in ends if math.isfinite(end)), default=0.0)


def _stands_out(values: Sequence[float], value: float | None) -> bool:
    """Whether `value` is far above all of `values`: beside their median and their spread."""
    if value is None or len(values) < 3 or not math.isfinite(value):
        return False
    middle = statistics.median(values)
    spread = statistics.median(abs(each - middle) for each in values)
    return value > _STANDS_OUT * abs(middle) and value - middle > 6 * spread


def _name(sample: SampleFigures) -> str:
    return f"{sample.name} of target {sample.target}" if sample.target else sample.name


def _names(samples: Sequence[SampleFigures]) -> str:
    if len(samples) == 1:
        return _name(samples[0])
    return _listed([sample.name for sample in samples])


def _has(samples: Sequence[SampleFigures], what: str) -> str:
    return f"{'has' if len(samples) == 1 else 'have'} {what}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
