"""How long a step takes beside a loop by hand, and a start beside torchrun."""

from __future__ import annotations

import importlib.util
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine import client
from engine.client import RunInfo
from engine.runs.store.store_reader import RunReader
from tools.gpu_acceptance.by_hand import ByHand
from tools.gpu_acceptance.kit import MARKS, RESULT, SCRIPTS, Kit, last_json, read_result
from tools.gpu_acceptance.nvidia_smi import Load
from tools.gpu_acceptance.product import (
    curve,
    notices,
    outcome,
    spec,
    start,
    stop,
    timed_curve,
    train,
    wait,
)

Figures = dict[str, Any]


class Length(NamedTuple):
    """A perceptron, and the steps between which its time is taken."""

    rows: int
    width: int
    first: int
    last: int


LENGTHS = (
    Length(256, 256, 100, 400),
    Length(2048, 1024, 60, 260),
    Length(4096, 1024, 60, 260),
    Length(4096, 1600, 40, 160),
    Length(8192, 2240, 20, 70),
)
"""On an H100 about 1.8, 1.6, 2.5, 6.6 and 22 ms in fp32; the first two wait for the host."""

SHORT = (Length(64, 256, 60, 260),)
"""Of a dry run."""

FIRST, LAST = 12, 32
"""The steps between which the time of a larger model is taken."""

DEVICE_SERIES = ("utilisation", "power", "memory", "temperature", "clock")


def overhead(kit: Kit) -> None:
    """Recorded over bare time of a step, at several lengths of a step, two rounds in turn."""
    lengths = LENGTHS if kit.on_gpu else SHORT
    cases = [
        ByHand(
            recipe="perceptron",
            device=kit.torch_device,
            batch=length.rows,
            first=length.first,
            last=length.last,
            settings={"width": length.width, "samples": (length.last + 10) * length.rows},
        )
        for length in lengths
    ]
    bare: list[list[Figures]] = []
    recorded: list[list[Figures]] = []
    for _ in range(2):
        bare.append(_train_by_hand(kit, *cases))
        recorded.append([_train_perceptron(kit, case) for case in cases])
    for length, *found in zip(lengths, *bare, *recorded, strict=True):
        by_hand, ours = found[:2], found[2:]
        ratio = {
            key: round(_least(ours, key) / _least(by_hand, key), 4)
            for key in ("gpu_ms", "host_ms", "main_thread_cpu_ms")
        }
        kit.emit("overhead", case=length._asdict(), bare=by_hand, recorded=ours, ratio=ratio)


def throughput(kit: Kit) -> None:
    """Larger models beside a loop by hand, and what the product and nvidia-smi say meanwhile."""
    if not kit.on_gpu:
        settings = {"size": "tiny", "length": 32, "samples": 256}
        case = ByHand(
            recipe="gpt", device="cpu", batch=4, first=FIRST, last=LAST, settings=settings
        )
        _compare_throughput(kit, case)
        return
    settings = {"size": "small", "length": 1024, "samples": 2048}
    plain = ByHand(recipe="gpt", device=kit.torch_device, batch=16, first=FIRST, last=LAST)
    gpt = msgspec.structs.replace(plain, settings=settings, bf16=True, compile=True)
    _compare_throughput(kit, gpt)
    if importlib.util.find_spec("torchvision") is None:
        kit.emit("throughput", skipped="ResNet-50 needs torchvision")
        return
    images = msgspec.structs.replace(plain, recipe="resnet50", settings={"samples": 2560})
    resnet = msgspec.structs.replace(images, batch=256, bf16=True)
    tuned = msgspec.structs.replace(resnet, benchmark=True, channels_last=True)
    _tell_by_hand(kit, tuned)
    _compare_throughput(kit, resnet)
    # PyTorch's default computes these convolutions in TensorFloat-32.
    _compare_throughput(kit, msgspec.structs.replace(images, batch=128))


def script(kit: Kit) -> None:
    """A script with a GradScaler, alone and watched: the time of its steps, and what is read."""
    first, last = ("300", "2300") if kit.on_gpu else ("20", "120")
    program = str(SCRIPTS / "mixed_precision.py")
    alone: list[Figures] = []
    watched: list[Figures] = []
    found: Figures = {}
    for number in range(2):
        result = kit.work / f"alone{number}.json"
        kit.run_python(program, kit.torch_device, first, last, variables={RESULT: str(result)})
        alone.append(read_result(result))
        result = kit.work / f"watched{number}.json"
        command = ("run", "--json", "--devices", kit.device, "--", program)
        words = (*command, kit.torch_device, first, last)
        found = kit.run_main(*words, seconds=60, variables={RESULT: str(result)})
        if not result.exists():
            kit.emit("script", **found)
            return
        watched.append(read_result(result))
    info = client.get_run(str(last_json(found)["id"]))
    losses = dict(watched[-1].pop("losses"))
    for figures in (*alone, *watched):
        figures.pop("losses", None)
    kit.emit(
        "script",
        alone=alone,
        watched=watched,
        ratio=round(_least(watched, "step_ms") / _least(alone, "step_ms"), 4),
        **_read_of_script(info, losses),
        **outcome(info),
        notices=notices(info)[:6],
    )


def start_step(kit: Kit) -> None:
    """From the start to the first recorded step, warm and cold; and torchrun to its end."""
    found: dict[str, list[float]] = {"warm": [], "cold": [], "torchrun": []}
    for _ in range(2):
        for name in ("warm", "cold"):
            begin = time.monotonic()
            wanted = spec(kit, "digits", epochs=100_000, cold_start=name == "cold")
            run_id = start(wanted)
            wait(kit, run_id, lambda info: info.status.step > 0, 60)
            found[name].append(round(time.monotonic() - begin, 2))
            stop(kit, run_id, now=True)
        begin = time.monotonic()
        launch = ("-m", "torch.distributed.run", "--nproc_per_node=1")
        program = str(SCRIPTS / "first_step.py")
        kit.run_python(*launch, program, kit.torch_device, str(kit.work / "torchrun.txt"))
        found["torchrun"].append(round(time.monotonic() - begin, 2))
    ratio = round(min(found["warm"]) / min(found["torchrun"]), 3)
    kit.emit("start", **found, ratio=ratio)


def _least(figures: list[Figures], key: str) -> float:
    """Return the least of a figure; not a number: something was not measured."""
    return min(float(each.get(key, math.nan)) for each in figures)


def _train_by_hand(kit: Kit, *cases: ByHand) -> list[Figures]:
    """Return what each loop by hand says, all in one process."""
    words = [msgspec.json.encode(case).decode() for case in cases]
    output = kit.run_python("-m", "tools.gpu_acceptance.by_hand", *words)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def _train_perceptron(kit: Kit, case: ByHand) -> Figures:
    result = kit.work / "recorded.json"
    result.unlink(missing_ok=True)
    steps = case.last + 5
    wanted = spec(kit, case.recipe, batch_size=case.batch, steps=steps, settings=case.settings)
    train(kit, wanted, 60, _marks(result, case))
    return read_result(result)


def _marks(result: Path, case: ByHand) -> dict[str, str]:
    return {RESULT: str(result), MARKS: f"{case.first},{case.last}"}


def _tell_by_hand(kit: Kit, case: ByHand) -> None:
    begin = time.monotonic()
    (found,) = _train_by_hand(kit, case)
    took = round(time.monotonic() - begin, 1)
    kit.emit("throughput", case=msgspec.to_builtins(case), bare=found, took=took)


def _compare_throughput(kit: Kit, case: ByHand) -> None:
    _tell_by_hand(kit, case)
    result = kit.work / "throughput.json"
    result.unlink(missing_ok=True)
    wanted = spec(
        kit,
        case.recipe,
        batch_size=case.batch,
        steps=case.last + 13,
        epochs=100,
        precision="bf16" if case.bf16 else "default",
        compile=case.compile,
        settings=case.settings,
        hang_minutes=10.0,
    )
    begin = time.time()
    with Load(kit) as load:
        info = train(kit, wanted, 100, _marks(result, case))
    kit.emit(
        "throughput",
        model=case.recipe,
        recorded=read_result(result),
        took=round(time.time() - begin, 1),
        **outcome(info),
        product=_device_figures(kit, info, begin),
        nvidia_smi={
            "last": load.rows[-6:],
            "most_memory_mib": load.most("memory.used"),
            "most_power": load.most("power.draw"),
        },
        reserved=curve(info, "rank/0/memory_reserved")[-1:],
        samples_per_second=info.status.samples_per_second,
        energy_wh=info.status.energy,
        notices=notices(info)[:5],
    )


def _device_figures(kit: Kit, info: RunInfo, begin: float) -> Figures:
    """Return the last and the largest values of the curves of the card."""
    found: Figures = {}
    for name in DEVICE_SERIES:
        points = timed_curve(info, f"device/{kit.device}/{name}")
        values = [value for at, value in points if at > begin and not math.isnan(value)]
        if values:
            found[name] = {"last": values[-3:], "most": max(values)}
    return found


def _read_of_script(info: RunInfo, own: dict[int, float]) -> Figures:
    """Return the series that were read, and how far their losses are from the script's `own`.

    The script counts steps from 0; what reads it may count them from 1.
    """
    with RunReader(info.folder) as reader:
        counts = dict(reader.counts())
        losses = {name: reader.points_after(name, 0) for name in counts if "loss" in name}
    differences = {}
    for name, points in losses.items():
        steps = points.step.astype(int).tolist()
        read = dict(zip(steps, points.value.tolist(), strict=True))
        for shift in (0, 1):
            apart = [abs(read[s + shift] - v) for s, v in own.items() if s + shift in read]
            differences[f"{name} +{shift}"] = [len(apart), max(apart, default=None)]
    series = {name: count for name, count in counts.items() if not name.startswith("device/")}
    return {"series": series, "loss_against_own": differences}
