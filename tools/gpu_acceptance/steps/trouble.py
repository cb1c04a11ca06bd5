"""What happens when a worker is killed, a kernel fails, or the card is full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from engine import client
from engine.client import RunInfo
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint
from engine.messages.events import CacheEmptied, CheckpointSaved, Paused, Restarting, Shrunk
from engine.spec.run_spec import RunSpec
from tools.gpu_acceptance.kit import SCRIPTS, Kit
from tools.gpu_acceptance.nvidia_smi import Load, used_mib
from tools.gpu_acceptance.product import (
    compared,
    curve,
    events,
    is_over,
    notices,
    outcome,
    spec,
    start,
    stop,
    train,
    wait,
    wait_event,
)

LEFT_GIB = "0.4"
"""What another program leaves of the card, where a resume must find it full."""

TRIED_SECONDS = 4.0
"""Time in which a resume on a full card has failed."""


def kill(kit: Kit) -> None:
    """SIGKILL of a worker: the sentence, the memory of the card, a resume, and a restart."""
    _kill_and_resume(kit)
    _kill_and_restart(kit)


def faults(kit: Kit) -> None:
    """An assert of a kernel: the sentence; and loader workers beside a CUDA context."""
    info = train(kit, spec(kit, "bad_label", steps=90, checkpoint_steps=20), 60)
    said = notices(info)[-3:]
    kit.emit("faults", what="a label out of range at step 30", **outcome(info), notices=said)
    curves = []
    for workers in (0, 2):
        wanted = spec(
            kit,
            "loaded",
            steps=100,
            settings={"dropout": 0.0},
            loader_workers=workers,
            deterministic=True,
        )
        begin = time.monotonic()
        info = train(kit, wanted, 60)
        curves.append(curve(info))
        took = round(time.monotonic() - begin, 1)
        kit.emit("faults", what=f"{workers} loader workers", took=took, **outcome(info))
    kit.emit("faults", loaders=compared(*curves))


def pause(kit: Kit) -> None:
    """A freed pause gives the memory back, by nvidia-smi; a card that is full keeps it paused."""
    size = {"size": "small", "length": 256} if kit.on_gpu else {"size": "tiny", "length": 32}
    for kind in ("single", "ddp", "fsdp"):
        wanted = spec(
            kit,
            "gpt",
            f"torch/{kind}",
            settings=size,
            batch_size=8,
            epochs=10_000,
            precision="bf16",
        )
        _pause_and_resume(kit, wanted)


def oom(kit: Kit) -> None:
    """A batch that does not fit: the sentence, and the run that goes on with smaller parts."""
    if not kit.on_gpu:
        kit.emit("oom", skipped="needs a card")
        return
    settings = {"size": "few_words", "length": 1024, "samples": 512}
    fields: dict[str, Any] = {"batch_size": 512, "precision": "bf16", "settings": settings}
    fields |= {"steps": 2, "epochs": 10}
    info = train(kit, spec(kit, "gpt", **fields), 60)
    kit.emit("oom", on_oom="stop", **outcome(info))
    with Load(kit) as load:
        info = train(kit, spec(kit, "gpt", on_oom="shrink", **fields), 60)
    shrunk = events(info, Shrunk)
    kit.emit(
        "oom",
        on_oom="shrink",
        shrunk=[[event.step, event.accumulation, event.text] for event in shrunk],
        **outcome(info),
        losses=curve(info),
        most_mib=load.most("memory.used"),
    )
    if shrunk:
        parts = shrunk[-1].accumulation
        info = train(kit, spec(kit, "gpt", accumulation=parts, **fields), 60)
        kit.emit("oom", with_accumulation=parts, **outcome(info), losses=curve(info))


def _kill_a_worker(kit: Kit, kind: str, restarts: int) -> str:
    """Start a run and kill its first worker some steps after a checkpoint."""
    wanted = spec(
        kit,
        "digits",
        f"torch/{kind}",
        epochs=1_000_000,
        checkpoint_steps=200 if kit.on_gpu else 50,
        max_restarts=restarts,
    )
    run_id = start(wanted)

    def has_more_than_checkpoint(info: RunInfo) -> bool:
        saved = info.status.checkpoint_step
        return saved > 0 and info.status.step > saved + 20

    info = wait(kit, run_id, has_more_than_checkpoint)
    os.kill(info.status.worker_pids[0], signal.SIGKILL)
    return run_id


def _kill_and_resume(kit: Kit) -> None:
    before = used_mib(kit)
    run_id = _kill_a_worker(kit, "single", restarts=0)
    ended = wait(kit, run_id, is_over, 60)
    time.sleep(1)
    kit.emit("kill", strategy="single", **outcome(ended), card_mib=[before, used_mib(kit)])
    name = client.resume(run_id)
    wait(kit, run_id, lambda info: info.status.step > ended.status.step + 5, 60)
    kit.emit("kill", strategy="single", resumed_from=name, **outcome(stop(kit, run_id)))


def _kill_and_restart(kit: Kit) -> None:
    run_id = _kill_a_worker(kit, "ddp", restarts=1)
    event = wait_event(kit, run_id, Restarting, 0, 60)
    info = wait(kit, run_id, lambda info: info.status.attempt > 1, 60)
    sentence, attempt = event.failure.message[:500], info.status.attempt
    kit.emit("kill", strategy="ddp", restarting=sentence, attempt=attempt)
    stop(kit, run_id)


def _pause_and_resume(kit: Kit, wanted: RunSpec) -> None:
    run_id = start(wanted)
    info = wait(kit, run_id, lambda info: info.status.step > 20, 90)
    pid = info.status.worker_pids[0]
    seen: dict[str, Any] = {"before": used_mib(kit, pid), "card_before": used_mib(kit)}
    emptied = wait_event(kit, run_id, CacheEmptied, client.send(run_id, EmptyCache()))
    saved = wait_event(kit, run_id, CheckpointSaved, client.send(run_id, SaveCheckpoint()))
    begin = time.monotonic()
    paused = wait_event(kit, run_id, Paused, client.send(run_id, Pause(free_devices=kit.on_gpu)))
    seen["seconds_to_pause"] = round(time.monotonic() - begin, 2)
    seen |= {"paused": used_mib(kit, pid), "card_paused": used_mib(kit)}
    if kit.on_gpu and wanted.strategy == "torch/single":
        seen["with_a_full_card"] = _resume_on_full_card(kit, run_id)
    begin = time.monotonic()
    client.send(run_id, Resume())
    wait(kit, run_id, lambda info: info.status.step > paused.step + 5, 60)
    seen["seconds_to_resume"] = round(time.monotonic() - begin, 2)
    seen["after"] = used_mib(kit, pid)
    info = stop(kit, run_id, seconds=40)
    kit.emit(
        "pause",
        strategy=wanted.strategy,
        mib=seen,
        freed_devices=paused.freed_devices,
        cache_freed=emptied.freed_bytes,
        checkpoint=[saved.bytes, round(saved.seconds, 2)],
        **outcome(info),
        notices=notices(info)[-4:],
    )


def _resume_on_full_card(kit: Kit, run_id: str) -> list[Any]:
    """Return the state of a paused run that was to resume on a card without room, and why."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPTS / "fill_card.py"), LEFT_GIB],
        env=os.environ | kit.visible,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        client.send(run_id, Resume())
        time.sleep(TRIED_SECONDS)
        info = client.get_run(run_id)
        other.communicate()
    return [str(info.state), notices(info)[-2:]]
