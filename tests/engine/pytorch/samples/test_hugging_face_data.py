"""Data sets of the real Hugging Face library: divided over ranks, and resumed within an epoch."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from engine.processes.process import PROJECT

PYTHON = os.environ.get("TRAINDECK_LIBRARIES", "")

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.nightly,
    pytest.mark.skipif(
        not PYTHON, reason="TRAINDECK_LIBRARIES names no Python with Traindeck and datasets"
    ),
]

PROGRAM = """
import json
import sys
from types import SimpleNamespace

import torch
from datasets import Dataset, DatasetDict
from engine.pytorch.training_data import DataFacts, TrainingData
from engine.spec.run_spec import RunSpec

CPU = torch.device("cpu")
rows = Dataset.from_dict({"y": list(range(40)), "text": [f"s{k}" for k in range(40)]})
rows = rows.with_format("torch")
stream = Dataset.from_dict({"y": list(range(40))}).to_iterable_dataset(num_shards=4)

def given(kind):
    return {
        "map": rows,
        "dict": DatasetDict({"train": rows, "test": rows.select(range(7))}),
        "stream": stream.with_format("torch"),
        "shuffled": stream.shuffle(seed=3, buffer_size=10).with_format("torch"),
    }[kind]

def epoch(kind, replica=0, replicas=1, first=0, state=None, workers=0):
    spec = RunSpec(recipe="r", strategy="torch/single", devices=("cpu:0",), batch_size=16,
                   epochs=2, loader_workers=workers)
    data = TrainingData(given(kind), DataFacts(spec, CPU, takes_pairs=False))
    data.first()
    sharder = data.train_sharder(SimpleNamespace(replica=replica, replicas=replicas, device=CPU))
    if state:
        sharder.load_state(state)
    found, states = [], []
    while not sharder.batches or first + len(found) < sharder.batches:
        local = next(sharder.local_batches(1, first + len(found)), None)
        if local is None:
            break
        found.append(local.batch["y"][: local.samples].tolist())
        states.append(sharder.state())
    sharder.close()
    return found, states

result = {}
for kind in ("map", "dict", "stream", "shuffled"):
    whole, states = epoch(kind)
    shares = [epoch(kind, replica, 2)[0] for replica in range(2)]
    result[kind] = {
        "samples": sorted(sum(whole, [])),
        "divided": all(sorted(a + b) == sorted(c) for a, b, c in zip(*shares, whole)),
        "skipped": epoch(kind, first=1)[0] == whole[1:],
        "keeps state": bool(states[0]),
        "resumed": epoch(kind, first=1, state=states[0])[0] == whole[1:],
        "two workers": sorted(sum(epoch(kind, workers=2)[0], [])),
    }
print(json.dumps(result))
"""


def test_data_sets_and_streams_are_divided_and_resumed() -> None:
    done = subprocess.run(
        [PYTHON, "-c", PROGRAM],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for kind, found in json.loads(done.stdout.splitlines()[-1]).items():
        assert found["samples"] == found["two workers"] == list(range(40)), kind
        assert found["divided"], kind
        assert found["skipped"], kind
        assert found["resumed"], kind
        # The state of a stream that shuffles leaves out what is in its buffer.
        assert found["keeps state"] == (kind == "stream")
