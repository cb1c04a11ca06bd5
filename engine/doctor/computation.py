"""Rules about what the GPUs have computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from engine.doctor.facts import ComputationFacts, GpuFacts, MirroredFacts, RanksFacts
from engine.doctor.finding import Finding
from engine.environments.installed import Installed, loaded_mix_problem
from engine.system.units import byte_size

TOLERANCE = {"fp32": 1e-5, "tf32": 3e-3, "bf16": 2e-2, "fp16": 3e-3}
"""The largest error relative to the exact result, by format: several times what is normal."""

_FAULTY = (
    "Compute it once more with no other program on the card. If it stays wrong: look for `Xid` and "
    "`ECC` in `sudo dmesg`, undo an overclocking, and test the memory of the card."
)
_SECOND = "Update driver and framework; `sudo dmesg` says whether the driver has noted an error."


def torch_gpu_check(
    facts: ComputationFacts, gpu: GpuFacts, uuid: str, installed: Installed | None = None
) -> Finding:
    """Return whether PyTorch computes right on the device `uuid` of `gpu`."""
    name = f"PyTorch computes on {gpu.label}"
    if uuid != gpu.uuid:
        name = f"{name}, slice {uuid}"
    if facts.count != 1:
        text = f"PyTorch sees {facts.count} devices where only {uuid} is visible."
        return Finding(
            name, "error", text, "Update the driver: it must know devices by their UUID."
        )
    is_same = facts.uuid.removeprefix("GPU-") == uuid.removeprefix("GPU-")
    is_whole = uuid == gpu.uuid and gpu.maker == "NVIDIA"  # others write it in another form
    if facts.uuid and is_whole and not is_same:
        text = f"CUDA gives the card {facts.uuid} where NVML says {uuid}."
        return Finding(name, "error", text, "Restart the machine: driver and library disagree.")
    build = installed.torch if installed else None
    maps = "".join(facts.libraries)
    if installed and build and (mix := loaded_mix_problem(installed, build.cuda, maps)):
        return Finding(name, "error", mix, "Reinstall PyTorch in an environment of its own.")
    bad = _bad_results(facts.errors, facts.failures)
    if bad:
        memory = f"; {byte_size(facts.free)} of {byte_size(facts.total)} were free"
        return Finding(name, "error", f"{bad}{memory}.", _remedy(facts.failures))
    worst = max(facts.errors.values(), default=0.0)
    text = (
        f"Products and convolutions in {', '.join(TOLERANCE)} agree with the CPU (largest error "
        f"{worst:.1g}); {byte_size(facts.free)} of {byte_size(facts.total)} are free."
    )
    return Finding(name, "ok", text)


def ranks_check(facts: RanksFacts, names: Collection[str], seconds: float) -> Finding:
    """Return how the sum of NCCL over the GPUs `names` went."""
    name, where = "NCCL", " and ".join(names)
    how = {
        "hung": f"did not end within {seconds:g} s",
        "wrong": "is wrong",
        "failed": f"failed: {facts.error}",
    }
    if facts.state == "ok":
        return Finding(name, "ok", f"The sum over {where} is right.")
    text = f"The sum over {where} {how.get(facts.state, facts.state)}"
    if facts.without_p2p == "ok":
        remedy = (
            "Set NCCL_P2P_DISABLE=1 in the environment of Traindeck for now. The cause is mostly "
            "the IOMMU: switch it off in the BIOS (or `iommu=pt`), or ACS on the PCIe switches."
        )
        return Finding(
            name,
            "error",
            f"{text.rstrip('.')}; without copies from card to card it is right.",
            remedy,
        )
    again = f"; without copies from card to card: {facts.without_p2p}" if facts.without_p2p else ""
    remedy = "Look for `Xid` in `sudo dmesg`; a larger /dev/shm and a newer driver help at times."
    return Finding(name, "error", f"{text.rstrip('.')}{again}.", remedy)


def tensorflow_checks(facts: ComputationFacts, names: Collection[str]) -> list[Finding]:
    """Return whether TensorFlow lists the GPUs `names`, and computes on them, also with XLA."""
    listed = facts.devices == len(names)
    wanted = "a GPU" if len(names) == 1 else f"{len(names)} GPUs"
    text = f"TensorFlow lists {facts.devices} of {wanted}." if not listed else ""
    found = [
        Finding(
            "TensorFlow devices",
            "ok" if listed else "error",
            text or f"TensorFlow lists {wanted}.",
            ""
            if listed
            else "Its CUDA libraries are missing or not those of its build: see above.",
        )
    ]
    for what, title in (("convolution", "TensorFlow convolution"), ("XLA", "TensorFlow XLA")):
        errors = {key: e for key, e in facts.errors.items() if key.startswith(what)}
        failures = {key: f for key, f in facts.failures.items() if key.startswith(what)}
        if not errors and not failures:
            found.append(Finding(title, "unknown", "There is no device to compute it on."))
        elif bad := _bad_results(errors, failures):
            found.append(Finding(title, "error", f"{bad}.", _remedy(failures)))
        else:
            found.append(Finding(title, "ok", "It agrees with the CPU on each device."))
    return found


def mirrored_check(facts: MirroredFacts) -> Finding:
    """Return how the sum of MirroredStrategy went."""
    name = "MirroredStrategy"
    if facts.devices < 2:
        return Finding(name, "unknown", "TensorFlow has fewer than two GPUs.")
    wanted = float(sum(range(1, facts.devices + 1)))
    if facts.failure:
        remedy = "Choose another all-reduce in the form (hierarchical), or a PyTorch strategy."
        return Finding(name, "error", f"Its sum failed: {facts.failure}", remedy)
    if facts.sum is None or any(each != (wanted, wanted) for each in facts.sum):
        return Finding(name, "error", f"Its sum is {facts.sum}, not {wanted:g} on all.", _SECOND)
    return Finding(name, "ok", f"The sum over {facts.devices} replicas is right.")


def _bad_results(errors: Mapping[str, float], failures: Mapping[str, str]) -> str:
    """Return what is wrong or failed, without the stop; empty: nothing."""
    wrong = [
        f"{name} is wrong (error {error:.2g})"
        for name, error in errors.items()
        if not error <= TOLERANCE.get(name.rpartition(" ")[2], TOLERANCE["fp32"])
    ]
    failed = [f"{name} failed ({why.rstrip('.')})" for name, why in failures.items()]
    shown = [*wrong, *failed]
    more = f", and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more


def _remedy(failures: Mapping[str, str]) -> str:
    if any("out of memory" in why.lower() or "OutOfMemory" in why for why in failures.values()):
        return "Other programs use its memory: end them, then check again."
    return _SECOND if failures else _FAULTY
