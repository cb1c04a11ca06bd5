"""A program in the place of `engine.planning`, which measures nothing, and what it answers."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from engine.doctor.finding import Finding
from engine.planning.requests import Answer
from engine.planning.results import (
    DeviceEstimate,
    Doing,
    Entry,
    Found,
    MemoryEstimate,
    Preflight,
    Race,
    Raced,
)
from engine.processes.process import PROJECT
from engine.spec.run_spec import RunSpec

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=2)
GIB = 2**30
ENTRY = Entry(
    strategy=SPEC.strategy,
    devices=SPEC.devices,
    batch_size=SPEC.batch_size,
    precision="fp32",
    samples_per_second=1234.5,
    efficiency=0.5,
    memory={"cpu": 0.5 * GIB},
    first_step_seconds=1.5,
    shares={"compute": 0.7, "communication": 0.2, "data": 0.1},
    spec=SPEC,
)
FINDING = Finding(name="gradients", level="ok", text="All ranks have the same gradients.")
ESTIMATE = MemoryEstimate(
    devices=(DeviceEstimate(device="cpu:0", weights=GIB, total=GIB, available=2 * GIB),),
    text="Fits: about 1 of 2 GiB.",
    fits=True,
)

_PROGRAM = """
import base64, json, sys
import msgspec

def tell(line):
    print(base64.b64encode(msgspec.msgpack.encode(line)).decode(), flush=True)

request = msgspec.msgpack.decode(base64.b64decode(sys.stdin.readline()))
answers = {answers}
steps = request.get("steps", 0)
kind = request["type"]
if kind == "race" and not request["entrants"]:
    tell(json.loads(answers["nothing"]))
    sys.exit()
spec = request["entrants"][0] if kind == "race" else request["spec"]
lines = [json.loads(line.replace("RECIPE", spec["recipe"])) for line in answers[kind]]
for line in lines:
    if "entry" in line:
        line["entry"]["spec"] = request["entrants"][0]
    for entry in line.get("entries", ()):
        entry["spec"] = request["entrants"][0]
    if "spec" in line:
        line["spec"] = request["spec"]
for line in lines[:-1]:
    tell(line)
if steps == 1000:
    sys.stdin.read()
if kind == "race":
    lines[-1]["steps"] = steps
tell(lines[-1])
"""

_SERVE = f"""
import sys
sys.path.insert(0, {str(PROJECT)!r})
from engine.planning import measuring_process
from engine.remote import server
measuring_process.ARGUMENTS = tuple(sys.argv[2:])
server.serve(sys.argv[1])
"""


def serving(folder: Path) -> tuple[str, ...]:
    """Return the command of a remote side, for a `Connection`, which measures with `program`."""
    return (sys.executable, "-c", _SERVE, "NONCE", *program(folder))


def program(folder: Path, finding: Finding = FINDING) -> tuple[str, ...]:
    """Write the program to `folder`; return its arguments for Python.

    RECIPE in `finding`, that of a preflight, stands for the path of the recipe. Its answers are
    about the first spec of the request. A race of 1000 steps ends when its input is closed.
    """
    answers: dict[str, list[Answer]] = {
        "race": [
            Doing("DDP on 2 CPUs", 0, 1),
            Raced(ENTRY),
            Race(entries=(ENTRY,), steps=0),
        ],
        "preflight": [
            Doing("gradients"),
            Found(finding),
            Preflight(spec=SPEC, findings=(finding,)),
        ],
        "memory": [ESTIMATE],
    }
    lines: dict[str, object] = {
        kind: [msgspec.json.encode(each).decode() for each in said]
        for kind, said in answers.items()
    }
    lines["nothing"] = '{"type":"refusal","text":"There is nothing to race."}'
    file = folder / "fake_planning.py"
    file.write_text(_PROGRAM.replace("{answers}", repr(lines)), encoding="utf-8")
    return (str(file),)
