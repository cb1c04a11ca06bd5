"""Prints what the host waits for as a table: `python -m tests.ghost.table FOUND`.

FOUND is what `python -m tests.ghost.program` wrote about `trials.trials_of(trials.ALL)`; with `-`,
the trials are run first, in about a minute. Each cell has the waits in a step, in a chunk and in a
batch of validation, or the lowest and the highest number over clipping and accumulation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import msgspec

from tests.ghost.trials import ALL, NUMBERS, Found, trials_of

KERAS_ON_GPUS = {"KERAS_BACKEND": "torch", "KERAS_TORCH_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": ""}
"""The environment of `tests.ghost.program`: Keras asks for its device before there is one."""


def _run(folder: Path) -> Path:
    source, target = folder / "trials.json", folder / "found.json"
    source.write_bytes(msgspec.json.encode(trials_of(ALL)))
    command = [sys.executable, "-m", "tests.ghost.program", str(source), str(target)]
    subprocess.run(command, env=os.environ | KERAS_ON_GPUS, check=True)
    return target


def table(found: list[Found]) -> str:
    """Return the waits of all trials, by strategy and precision."""
    rows: dict[str, dict[str, list[tuple[int, int, int]]]] = defaultdict(lambda: defaultdict(list))
    for trial, seen in zip(trials_of(ALL), found, strict=True):
        numbers = [sum(w.values()) for w in (seen.per_step, seen.per_chunk, seen.per_batch)]
        rows[trial.strategy][trial.precision].append((numbers[0], numbers[1], numbers[2]))
    lines = [f"| strategy | {' | '.join(NUMBERS)} |", "|---" * (1 + len(NUMBERS)) + "|"]
    for strategy, cells in rows.items():
        texts = [", ".join(map(_range, zip(*cells[name], strict=True))) for name in NUMBERS]
        lines.append(f"| `{strategy}` | {' | '.join(text or '–' for text in texts)} |")
    return "\n".join(lines)


def _range(numbers: tuple[int, ...]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def main(given: str) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        content = (_run(Path(folder)) if given == "-" else Path(given)).read_bytes()
    print(table(msgspec.convert(msgspec.json.decode(content)["trials"], list[Found])))


if __name__ == "__main__":
    main(sys.argv[1])
