"""What is there: the driver beside nvidia-smi, the template, the doctor."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from engine.processes.process import usable_processors
from engine.telemetry.helper_client import snapshot_once
from engine.templates import client as templates
from engine.templates.kinds import KINDS
from engine.templates.protocol import TemplateState
from tools.gpu_acceptance.kit import ROOT, Kit
from tools.gpu_acceptance.nvidia_smi import fields_of, used_mib

FIELDS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.reserved",
    "memory.used",
    "memory.free",
    "utilization.gpu",
    "temperature.gpu",
    "power.draw",
    "enforced.power.limit",
    "clocks.sm",
    "clocks.mem",
    "fan.speed",
    "pstate",
    "clocks_event_reasons.active",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "persistence_mode",
)

TRAFFIC = ("pcie_sent", "pcie_received", "nvlink_sent", "nvlink_received", "silent")

TEMPLATE_SECONDS = 55.0
"""Longest wait for a template."""


def facts(kit: Kit) -> None:
    """Versions, processors, and the product's snapshot beside nvidia-smi's, idle."""
    _tell_machine(kit)
    begin = time.monotonic()
    snapshot = snapshot_once()
    took = round(time.monotonic() - begin, 2)
    for device in snapshot.devices:
        product = msgspec.to_builtins(device)
        kit.emit("nvml", product=product, took=took, note=snapshot.gpu_note)
    processors = {
        "logical": psutil.cpu_count(),
        "physical": psutil.cpu_count(logical=False),
        "usable": usable_processors(),
    }
    kit.emit("facts", processors=processors)
    if row := fields_of(kit, *FIELDS):
        kit.emit("nvml", nvidia_smi=dict(zip(FIELDS, row, strict=False)))
    kit.emit("facts", devices=kit.run_main("devices", "--json", seconds=30))
    _tell_traffic(kit)
    if kit.on_gpu:
        words = ("-m", "tools.record_gpus", str(kit.out / "machine.json"))
        recorded = kit.run_program(*words, seconds=30)
        kit.emit("facts", record=recorded["rc"])


def warm(kit: Kit) -> None:
    """The template: seconds, memory, and that it has touched no card."""
    begin = time.monotonic()
    templates.start(KINDS["torch"])
    state = _torch_template()
    while state is None and time.monotonic() < begin + kit.slow * TEMPLATE_SECONDS:
        time.sleep(0.2)
        state = _torch_template()
    if state is None:
        kit.emit("warm", error="no template")
        return
    rollup = Path(f"/proc/{state.pid}/smaps_rollup").read_text().splitlines()
    kit.emit(
        "warm",
        seconds=round(time.monotonic() - begin, 1),
        problem=state.problem,
        threads=psutil.Process(state.pid).num_threads(),
        nvidia_files=[link for link in _open_files(state.pid) if "nvidia" in link],
        libcuda_mapped="libcuda.so" in Path(f"/proc/{state.pid}/maps").read_text(),
        in_smi=used_mib(kit, state.pid),
        rollup=[line for line in rollup if line.startswith(("Rss", "Pss:", "Anonymous"))],
    )


def doctor(kit: Kit) -> None:
    """The doctor's checks."""
    kit.emit("doctor", **kit.run_main("doctor", seconds=44))


def doctor_full(kit: Kit) -> None:
    """The doctor's checks, and each strategy trained for a moment; its report is kept."""
    found = kit.run_main("doctor", "--full", seconds=88)
    for report in ROOT.glob("traindeck-report-*.txt"):
        shutil.move(report, kit.out / "doctor.txt")
    kit.emit("doctor_full", **found)


def _tell_machine(kit: Kit) -> None:
    """Keep what nvidia-smi and the system say of the machine."""
    commands = (
        ["nvidia-smi"],
        ["nvidia-smi", "-q", "-d", "TEMPERATURE,POWER,ECC,PERFORMANCE"],
        ["nvidia-smi", "topo", "-m"],
        ["df", "-h", "/dev/shm", "."],
    )
    with (kit.out / "machine.txt").open("wb") as file:
        for command in commands:
            if shutil.which(command[0]):
                subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=20)
    program = "import sys, torch; print(sys.version.split()[0], torch.__version__)"
    kit.emit("facts", versions=kit.run_python("-c", program).split())


def _tell_traffic(kit: Kit) -> None:
    """Ask the helper as the window does, with the details of one card."""
    helper = subprocess.Popen(
        [sys.executable, "-m", "engine.telemetry.helper"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert helper.stdin is not None
    assert helper.stdout is not None
    timer = threading.Timer(15 * kit.slow, helper.kill)
    timer.start()
    helper.stdin.write(json.dumps({"detail": kit.device}).encode() + b"\n")
    helper.stdin.flush()
    rows: list[dict[str, Any]] = []
    times: list[float] = []
    for _ in range(4):
        begin = time.monotonic()
        line = helper.stdout.readline()
        times.append(round(time.monotonic() - begin, 3))
        for device in json.loads(line or b"{}").get("devices", ()):
            if device["id"] == kit.device:
                rows.append({name: device.get(name) for name in TRAFFIC})
    timer.cancel()
    helper.kill()
    helper.communicate()
    kit.emit("nvml", traffic=rows, seconds_between=times)


def _torch_template() -> TemplateState | None:
    return next((state for state in templates.states() if state.kind == "torch"), None)


def _open_files(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except OSError:  # closed meanwhile
            continue
    return found
