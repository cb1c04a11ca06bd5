"""What the ranks saw of a replayed step, together: which sample and which layer made it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from engine.planning.results import Inspection
from engine.training.step_inspection import (
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

_OF_STEP = (
    "Losses of samples are from the outputs of the step itself, with its batch and its random "
    "state; gradients of samples are of each sample alone, in evaluation mode."
)
_ALONE = "Losses and gradients of samples are of each sample alone, in evaluation mode."


def read_inspection(folder: Path) -> Inspection | None:
    """Return what the ranks of the run in `folder` saw of a step; None: they wrote nothing.

    Raises OSError, msgspec.MsgspecError.
    """
    ranks = read_inspections(folder)
    if not ranks:
        return None
    samples = sorted((s for rank in ranks for s in rank.samples), key=suspicion)[:MOST_SAMPLES]
    layers, parameters = _layers(ranks), _parameters(ranks)
    return Inspection(
        answer=" ".join(_answer(samples, layers, parameters)),
        samples=tuple(samples),
        samples_in_all=sum(rank.samples_in_all for rank in ranks),
        layers=layers,
        parameters=parameters,
        in_evaluation=any(rank.in_evaluation for rank in ranks),
        notes=(
            _ALONE if any(rank.losses_alone for rank in ranks) else _OF_STEP,
            *dict.fromkeys(note for rank in ranks for note in rank.notes),
        ),
    )


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
) -> Iterator[str]:
    """Yield what made the step, in sentences: the earliest cause that can be seen."""
    broken = [each.name for each in parameters if not math.isfinite(each.weight_norm)]
    bad_inputs = [sample for sample in samples if sample.inputs.not_finite]
    bad_losses = [s for s in samples if s.loss is not None and not math.isfinite(s.loss)]
    if broken:
        yield f"Weights were not finite before the step: {_listed(broken)}. Look at an earlier one."
    elif bad_inputs:
        count = bad_inputs[0].inputs.not_finite
        in_first = f" in {bad_inputs[0].name}" if len(bad_inputs) > 1 else ""
        yield (
            f"{_capital(_names(bad_inputs))} {_has(bad_inputs, 'inputs')} that are not finite: "
            f"{count:,} number{'s' * (count != 1)}{in_first}."
        )
    elif bad_losses and len(bad_losses) < len(samples):
        yield (
            f"The inputs of all samples are finite, and {_names(bad_losses)} "
            f"{_has(bad_losses, 'no finite loss')}."
        )
    elif bad_losses:
        yield "The inputs of all samples are finite, and no sample has a finite loss."
    first = next((layer for layer in layers if layer.not_finite), None)
    if first is not None:
        yield _first_layer(first, names_inputs=bool(bad_inputs))
        return
    if broken or bad_inputs or bad_losses:
        if layers and not broken:
            yield "All outputs of layers are finite: the loss itself is computed from them."
        return
    # In the backward pass the last layers come first.
    broken = [p.name for p in reversed(parameters) if not math.isfinite(p.gradient_norm or 0.0)]
    if broken:
        yield (
            "All losses and outputs of layers are finite. The first gradient that is not finite "
            f"is that of {broken[0]}."
        )
        return
    yield from _spike(samples, parameters)


def _first_layer(layer: LayerFigures, *, names_inputs: bool) -> str:
    name = f"{layer.name} ({layer.kind})" if layer.name else f"the model ({layer.kind})"
    text = f"The first output that is not finite is that of {name}"
    if layer.has_finite_inputs or names_inputs:
        return f"{text}."
    return f"{text}, and its inputs are not either."


def _spike(
    samples: Sequence[SampleFigures], parameters: Sequence[ParameterFigures]
) -> Iterator[str]:
    losses = [sample.loss for sample in samples if sample.loss is not None]
    if losses:
        worst, middle = samples[0], statistics.median(losses)
        if _stands_out(losses[0], losses):
            yield (
                f"{_capital(_name(worst))} has the loss {losses[0]:.4g}, where the median of its "
                f"batch is {middle:.4g}.{_odd_inputs(worst, samples)}"
            )
        else:
            yield (
                "Every value is finite, and no sample stands out by its loss: the losses go from "
                f"{losses[-1]:.4g} to {losses[0]:.4g}."
            )
            steepest = max(samples, key=lambda each: each.gradient_norm or 0.0)
            norms = [s.gradient_norm for s in samples if s.gradient_norm is not None]
            if steepest.gradient_norm and _stands_out(steepest.gradient_norm, norms):
                yield (
                    f"{_capital(_name(steepest))} has the gradient norm "
                    f"{steepest.gradient_norm:.4g}, where the median of those computed is "
                    f"{statistics.median(norms):.4g}.{_odd_inputs(steepest, samples)}"
                )
    norms_of = {p.name: p.gradient_norm for p in parameters if p.gradient_norm}
    if norms_of:
        total = math.hypot(*norms_of.values())
        largest = max(norms_of, key=norms_of.__getitem__)
        share = (norms_of[largest] / total) ** 2
        yield (
            f"The largest gradient is that of {largest}: {norms_of[largest]:.4g}, "
            f"{share:.0%} of the square of the norm {total:.4g}."
        )


def _odd_inputs(sample: SampleFigures, samples: Sequence[SampleFigures]) -> str:
    """Return a sentence on the inputs of a sample that are much larger than those of the others."""
    sizes = [_size(each) for each in samples]
    middle = statistics.median(sizes)
    if len(sizes) < 3 or not _size(sample) > _STANDS_OUT * middle:
        return ""
    return f" Its inputs reach {_size(sample):.4g}, where the median of the batch is {middle:.4g}."


def _size(sample: SampleFigures) -> float:
    ends = (abs(sample.inputs.smallest), abs(sample.inputs.largest))
    return max((end for end in ends if math.isfinite(end)), default=0.0)


def _stands_out(value: float, values: Sequence[float]) -> bool:
    """Whether a value is far above all the others: beside their median and their spread."""
    middle = statistics.median(values)
    spread = statistics.median(abs(each - middle) for each in values)
    return len(values) > 2 and value > _STANDS_OUT * abs(middle) and value - middle > 6 * spread


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
