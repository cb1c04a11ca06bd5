"""A replay of step 37 of run 12, as the engine finds it: one sample has an infinite input."""

from __future__ import annotations

import math

from engine.planning.results import Inspection, RecordedStep, Replay
from engine.training.probes.step_inspection import (
    Inputs,
    LayerFigures,
    ParameterFigures,
    Picture,
    SampleFigures,
)

_GREY = Picture(8, 8, 1, bytes(range(0, 256, 4)))
SAMPLES = (
    SampleFigures(
        name="sample 812 (img_0812.png)",
        rank=1,
        loss=math.nan,
        target="3",
        inputs=Inputs(smallest=0.0, largest=1.0, not_finite=1, picture=_GREY),
        gradient_norm=math.nan,
    ),
    SampleFigures(name="sample 5", rank=0, loss=2.914, inputs=Inputs(smallest=0.0, largest=1.0)),
)
LAYERS = (
    LayerFigures(name="stem", kind="Conv2d", mean=0.1, smallest=-4.8, largest=1.0, not_finite=0.1),
    LayerFigures(
        name="head.fc", kind="Linear", mean=math.nan, smallest=math.inf, largest=-math.inf,
        not_finite=1.0, has_finite_inputs=False,
    ),
    LayerFigures(
        name="head", kind="Head", mean=math.nan, smallest=math.inf, largest=-math.inf,
        not_finite=1.0, has_finite_inputs=False,
    ),
)  # fmt: skip
PARAMETERS = (
    ParameterFigures(name="stem.weight", weight_norm=3.0, gradient_norm=0.3, update_norm=0.06),
    ParameterFigures(name="stem.bias", weight_norm=4.0, gradient_norm=0.4, update_norm=0.08),
    ParameterFigures(
        name="head.fc.weight", weight_norm=1.0, gradient_norm=math.nan, update_norm=math.nan
    ),
)
REPLAY = Replay(
    run="12",
    step=37,
    begin=30,
    checkpoint="step-00000030",
    equal=7,
    around=tuple(
        RecordedStep(step, 2.0 if step < 37 else math.nan, 1.5, step <= 37 or None)
        for step in range(30, 48)
    ),
    inspection=Inspection(
        answer="Sample 812 (img_0812.png) has an infinite input.",
        samples=SAMPLES,
        samples_in_all=64,
        layers=LAYERS,
        parameters=PARAMETERS,
    ),
    seconds=14.0,
)
