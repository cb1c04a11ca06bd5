"""Predicts the peak memory of a run before it starts, from short runs with small batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from engine.planning.device_claim import DevicesInUse, claimed_devices
from engine.planning.memory.memory_model import SEEN_GROWTH, MemoryModel
from engine.planning.own_data_folder import own_data_folder
from engine.planning.results import DeviceEstimate, Doing, MemoryEstimate, News
from engine.planning.short_run import MOST_SECONDS, ShortRun, short_run
from engine.processes.free_memory import free_bytes
from engine.spec import catalog
from engine.spec.device_names import all_on_cpu, machine_of
from engine.spec.run_spec import RunSpec
from engine.system.units import byte_size
from engine.telemetry.helper_client import snapshot_once
from engine.training.probes.memory_record import CPU, MEASURE_MEMORY, RECORDED_STEP

Tell = Callable[[News], None]
IsCancelled = Callable[[], bool]

SMALLEST = 8
"""Samples of the first short run that each replica computes at once."""

ENOUGH_GROWTH = SEEN_GROWTH
"""Bytes that the last short run needs more than the first, so that the slope is seen through
what allocators round and keep."""

MOST_RUNS = 4
LARGEST_STEP = 4
"""The batch of a short run is at most so many times that of the one before. On a GPU, the batch
that is asked for is at most so many times that of the last run."""

LONG_SECONDS = 60.0
"""No larger batch is tried after a short run that took so long."""

CLOSE = 0.9
"""Of the available memory: a prediction above it may be wrong about whether it fits."""


def estimate(
    spec: RunSpec, limit_mib: int, tell: Tell, is_cancelled: IsCancelled
) -> MemoryEstimate:
    """Return the predicted peak memory of a run with `spec`.

    `limit_mib` is the memory of the CPU devices together, in MiB; 0: what the machine has free.
    Raises Cancelled.
    """
    if problem := refusal(spec):
        return MemoryEstimate(problem=problem)
    available = available_memory(spec, limit_mib)
    try:
        with claimed_devices(spec.devices):
            model, failed = measure(spec, tell, is_cancelled)
    except DevicesInUse as error:
        return MemoryEstimate(problem=str(error))
    if model is None:
        text = f"{failed.problem} {failed.where}".strip()
        if failed.is_out_of_memory:
            size = failed.spec.batch_size
            return MemoryEstimate(
                fits=False, text=f"Does not fit, not even with batch {size}: {text}"
            )
        return MemoryEstimate(problem=text)
    devices = model.devices(spec.batch_size, available)
    names = {} if all_on_cpu(spec.devices) else snapshot_once().display_names()
    fits, text = _verdict(devices, names)
    return MemoryEstimate(devices=devices, fits=fits, text=text)


def refusal(spec: RunSpec) -> str:
    """Return why the memory of such a run cannot be measured here; empty: it can."""
    if spec.is_script:
        return "Memory is measured for recipes: the batches of a script are its own."
    if any(map(machine_of, spec.devices)):
        return "Memory is measured on this machine only: choose its devices."
    return ""


def available_memory(spec: RunSpec, limit_mib: int) -> dict[str, float]:
    """Return the bytes of memory of each device of `spec`; all CPU devices are `cpu`."""
    if all_on_cpu(spec.devices):
        return {CPU: limit_mib * 2.0**20 if limit_mib else free_bytes()}
    gpus = snapshot_once().devices
    sizes = {gpu.id: (gpu.memory_total or 0) - (gpu.memory_reserved or 0) for gpu in gpus}
    sizes |= {part.uuid: part.memory_total or 0 for gpu in gpus for part in gpu.slices}
    found = {name: float(size) for name in spec.devices if (size := sizes.get(name))}
    if limit := spec.memory_limit_mib:
        workers = len(spec.slots) // len(spec.devices)
        found = {name: min(size, workers * limit * 2.0**20) for name, size in found.items()}
    return found


def parts_of(spec: RunSpec) -> int:
    """Return into how many parts a global batch is divided, each of which is computed at once."""
    strategy = catalog.strategy(spec.strategy, catalog.recipe_of(spec))
    parts = strategy.replicas(spec.slots) * spec.accumulation
    if spec.strategy == "torch/pipeline":
        parts *= spec.microbatches or 2 * len(spec.slots)
    return parts


def measure(
    spec: RunSpec, tell: Tell, is_cancelled: IsCancelled
) -> tuple[MemoryModel | None, ShortRun]:
    """Return what short runs with small batches show, and the last of them.

    None: they have failed; then the run says why. Raises Cancelled.
    """
    parts = parts_of(spec)
    asked = spec.batch_size
    runs: list[ShortRun] = []
    batch = min(asked, SMALLEST * parts)
    with own_data_folder("memory", **{MEASURE_MEMORY: "step"}):
        while True:
            tell(Doing(f"Measures a step with batch {batch}", len(runs), 2))
            run = _measured(spec, batch, is_cancelled)
            is_of_batch = not (run.ok or run.is_out_of_memory or run.was_killed)
            if is_of_batch and not runs and batch < asked:
                # The data may have a batch size of their own.
                tell(Doing(f"Measures a step with batch {asked}", 1, 2))
                run = _measured(spec, asked, is_cancelled)
            if not run.ok:
                is_known = runs and not run.was_killed
                return (MemoryModel(runs), runs[-1]) if is_known else (None, run)
            runs.append(run)
            model = MemoryModel(runs)
            last = run.spec.batch_size
            growth = model.growth()
            is_seen = model.is_exact or growth >= ENOUGH_GROWTH
            # A GPU's libraries take other kernels, with other workspaces, for a larger batch.
            is_far = not all_on_cpu(spec.devices) and len(runs) == 2 and LARGEST_STEP * last < asked
            if (
                last >= asked
                or len(runs) == MOST_RUNS
                or (len(runs) > 1 and run.seconds > LONG_SECONDS)
                or (len(runs) > 1 and is_seen and not is_far)
            ):
                return model, run
            batch = asked // LARGEST_STEP
            if not is_far:
                batch = _next_batch(runs[0].spec.batch_size, last, growth)
            batch = min(asked, -(-batch // parts) * parts)


def _next_batch(first: int, last: int, growth: float) -> int:
    """Return the batch that should need `ENOUGH_GROWTH` more than the first one."""
    if last == first:
        return 2 * first
    wanted = first + 1.25 * ENOUGH_GROWTH * (last - first) / growth if growth > 0 else 0.0
    return int(min(max(wanted or LARGEST_STEP * last, 2 * last), LARGEST_STEP * last))


def _measured(spec: RunSpec, batch: int, is_cancelled: IsCancelled) -> ShortRun:
    asked = msgspec.structs.replace(spec, batch_size=batch)
    return short_run(
        asked, steps=RECORDED_STEP + 1, seconds=MOST_SECONDS, is_cancelled=is_cancelled
    )


def _verdict(
    devices: tuple[DeviceEstimate, ...], names: Mapping[str, str]
) -> tuple[bool | None, str]:
    """Return whether all devices have room, and the sentence about the one that is fullest.

    `names`: what GPUs are called, by UUID.
    """
    known = [device for device in devices if device.available]
    if not known:
        total = max((device.total for device in devices), default=0.0)
        return None, f"Needs about {byte_size(total)} on each device."
    worst = max(known, key=lambda device: device.total / device.available)
    amounts = of_available(worst.total, worst.available)
    where = f" on {names.get(worst.device, worst.device)}" if len(devices) > 1 else ""
    if worst.total > worst.available:
        return False, f"Does not fit: about {amounts}{where}."
    if worst.total > CLOSE * worst.available:
        return True, f"Fits, but closely: about {amounts}{where}."
    return True, f"Fits: about {amounts}{where}."


def of_available(size: float, available: float) -> str:
    """Return `61.0 of 80.0 GiB`, or with two units if they differ."""
    first, second = byte_size(size), byte_size(available)
    number, unit = first.split()
    return f"{number} of {second}" if second.endswith(f" {unit}") else f"{first} of {second}"
