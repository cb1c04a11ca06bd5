"""Sums over ranks with PyTorch's collectives: each rank is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

PROBE = Path(__file__).parents[1] / "probe.py"

IMPORT_SECONDS = 90.0
"""Time for the ranks to import PyTorch; the limit of the sum counts from then on."""


def facts(arguments: list[str]) -> dict[str, Any]:
    """Return how the sum went, and, where NCCL failed, how it went without peer-to-peer copies.

    `arguments`: the backend, the number of ranks, and the seconds that the sum may take."""
    if arguments[0] == "rank":
        return _rank(*arguments[1:])
    backend, ranks, seconds = arguments[0], int(arguments[1]), float(arguments[2])
    state, error = _try(backend, ranks, seconds, {})
    found: dict[str, Any] = {"state": state, "error": error}
    if state != "ok" and backend == "nccl":
        again, error = _try(backend, ranks, seconds, {"NCCL_P2P_DISABLE": "1"})
        found["without_p2p"], found["error_without_p2p"] = again, error
    return found


def _try(backend: str, ranks: int, seconds: float, variables: dict[str, str]) -> tuple[str, str]:
    """Return `ok`, `hung`, `wrong` or `failed`, and what the ranks have said."""
    with tempfile.TemporaryDirectory(prefix="traindeck-doctor-") as folder:
        environment = {**os.environ, "NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "lo", **variables}
        environment["GLOO_SOCKET_IFNAME"] = "lo"
        logs = [Path(folder, f"rank{rank}") for rank in range(ranks)]
        begun = [Path(folder, f"begun{rank}") for rank in range(ranks)]
        started = []
        for rank in range(ranks):
            words = [
                sys.executable,
                str(PROBE),
                "torch_ranks",
                "rank",
                backend,
                str(rank),
                str(ranks),
            ]
            words += [str(Path(folder, "meeting")), str(seconds), str(begun[rank])]
            with logs[rank].open("wb") as log:
                process = subprocess.Popen(
                    words, env=environment, stdin=0, stdout=log, stderr=subprocess.STDOUT
                )
            started.append(process)
        ends_at, has_begun = time.monotonic() + IMPORT_SECONDS, False
        while any(each.poll() is None for each in started) and time.monotonic() < ends_at:
            if not has_begun and all(path.exists() for path in begun):
                ends_at, has_begun = time.monotonic() + seconds, True
            if any(each.poll() not in (None, 0) for each in started):
                ends_at = min(ends_at, time.monotonic() + 2)  # the others would wait for it
            time.sleep(0.05)
        is_late = [each.poll() is None for each in started]
        failed = [each.poll() not in (None, 0) for each in started]
        for each in started:
            each.kill()
            each.wait()
        said = [_text(log) for log in logs]
    if any(failed):
        return "failed", _complaint([text for rank, text in enumerate(said) if failed[rank]])
    if any(is_late):
        return "hung", _complaint(said)
    return ("ok", "") if all('"right": true' in text for text in said) else ("wrong", "")


def _rank(
    backend: str, rank: str, ranks: str, meeting: str, seconds: str, begun: str
) -> dict[str, Any]:
    import torch
    from torch import distributed
    from torch.distributed import FileStore  # type: ignore[attr-defined]

    Path(begun).touch()
    kind = {"nccl": "cuda", "xccl": "xpu"}.get(backend)
    device = torch.device(kind, int(rank)) if kind else torch.device("cpu")
    if kind:
        getattr(torch, kind).set_device(device)
    distributed.init_process_group(
        backend,
        store=FileStore(meeting, int(ranks)),
        rank=int(rank),
        world_size=int(ranks),
        timeout=timedelta(seconds=float(seconds)),
    )
    wanted = sum(range(1, int(ranks) + 1))
    right = True
    for size in (1, 1 << 20, 1 << 22):  # NCCL uses other ways for small and for large tensors
        tensor = torch.full((size,), float(rank) + 1, device=device)
        distributed.all_reduce(tensor)
        right = right and bool((tensor == wanted).all())
    return {"right": right}


def _text(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-20_000:]


def _complaint(said: list[str]) -> str:
    """Return the most telling line: a warning of NCCL, or else the last error."""
    lines = [line.strip() for text in said for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "NCCL WARN" in line]
    told = told or [line for line in lines if "Error" in line] or lines
    return told[-1][:400] if told else ""
