"""Rules about number formats: what another precision gives, and the order in which images lie."""

from __future__ import annotations

from engine.doctor.finding import Change, Finding
from engine.planning.checks.loading import GAIN
from engine.planning.short_run import ShortRun
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.spec_fields import Precision

PRECISION = "precision"
LAYOUT = "image layout"
_FASTER: dict[str, Precision] = {"fp32": "default", "default": "bf16", "tf32": "bf16"}


def faster_precision(spec: RunSpec) -> Precision | None:
    """Return the precision that is worth a trial beside that of `spec`; None: there is none."""
    return None if all_on_cpu(spec.devices) else _FASTER.get(spec.precision)


def precision_finding(run: ShortRun, tried: ShortRun) -> Finding | None:
    """Return what `tried`, a run in another precision, gave; None: nothing to compare."""
    if not (tried.ok and tried.samples_per_second and run.samples_per_second):
        return None
    other = tried.spec.precision
    text = (
        f"Tried with {other}, it gave {tried.samples_per_second:,.0f} samples/s, and with "
        f"{run.spec.precision} {run.samples_per_second:,.0f}."
    )
    if tried.samples_per_second < GAIN * run.samples_per_second:
        return Finding(name=PRECISION, level="ok", text=text)
    return Finding(
        name=PRECISION,
        level="hint",
        text=text,
        advice=f"{other} computes with fewer bits: see whether the curves stay the same.",
        change=Change(f"Use the precision {other}", {"precision": other}),
    )


def layout_finding(run: ShortRun) -> Finding | None:
    """Return whether cuDNN has to reorder images; None: it has not, or it matters little."""
    count = int(run.measured.get("model/channels_first", 0))
    if not count or all_on_cpu(run.spec.devices) or run.spec.precision not in ("bf16", "fp16"):
        return None
    return Finding(
        name=LAYOUT,
        level="hint",
        text=f"{count} convolution{'s have' if count > 1 else ' has'} weights in the order "
        "channels-first, and the fastest kernels of 16-bit convolutions want channels-last.",
        advice="Let model() of the recipe return model.to(memory_format=torch.channels_last), and "
        "set torch.backends.cudnn.benchmark = True: both made ResNet-50 1.8 times as fast on an "
        "H100.",
    )
