"""Rules about the builds of the frameworks: which driver and which cards they are for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from engine.doctor.facts import BuildFacts, DriverFacts, GpuFacts, sm, version_numbers
from engine.doctor.finding import Finding, Level
from engine.environments.gpu_builds import (
    TORCH,
    other_build_remedy,
    reinstall_command,
    tensorflow_problem,
    tensorflow_remedy,
    torch_problem,
)
from engine.environments.installed import Installed
from engine.telemetry.gpu_makers import GpuMaker

OLDEST_DRIVER = {11: "450.80", 12: "525.60", 13: "580.65"}
"""The first Linux driver of each CUDA version; later drivers run all earlier versions."""

OLDEST_CAPABILITY = {11: (3, 5), 12: (5, 0), 13: (7, 5)}
"""The oldest cards that the compilers of each CUDA version know."""

_FIRST_CUDA = {10: (12, 8), 11: (13, 0), 12: (12, 8)}
"""The first CUDA version that knows the cards with this first number of their capability."""

_KERNELS = re.compile(r"(sm|compute)_(\d+?)(\d)([af]?)")


def torch_checks(
    installed: Installed, driver: DriverFacts, python: str, kernels: Collection[str] = ()
) -> list[Finding]:
    """Return what is known of PyTorch from its files, for the cards of `driver`.

    `kernels`: what it is compiled for, as it says after its import; empty: not asked.
    """
    build = installed.torch
    if build is None:
        return [Finding("PyTorch", "unknown", "It is not installed in this environment.")]
    title = f"PyTorch {build.version}"
    others = [_torch_for(maker, installed, driver) for maker in driver.makers if maker != "NVIDIA"]
    if not driver.makers:
        how = f"is built for CUDA {build.cuda}; without a GPU it runs" if build.cuda else "runs"
        return [Finding("PyTorch", "ok", f"{title} {how} on the CPU.")]
    if not driver.gpus:
        return others
    if problem := torch_problem(installed, python):
        text = problem.partition(". ")[0]
        count = len(driver.gpus)
        here = "a GPU" if count == 1 else f"{count} GPUs"
        text = f"{text}; this machine has {here}."
        return [Finding("PyTorch", "error", text, _install(python)), *others]
    remedy = _old_card_torch(python)
    return [*_for_cards(title, build.cuda, driver, kernels, "PyTorch", remedy), *others]


def _torch_for(maker: GpuMaker, installed: Installed, driver: DriverFacts) -> Finding:
    """Return whether PyTorch is built for the cards of AMD or Intel.

    A build serves one maker: beside a card that it serves, the others are no fault of it.
    """
    build = installed.torch
    assert build is not None
    text = f"PyTorch {build.version} is built for {build.target or 'CPUs'}"
    if build.serves(maker):
        return Finding(f"PyTorch on {maker}", "ok", f"{text}, which fits the cards of {maker}.")
    level: Level = "unknown" if any(map(build.serves, driver.makers)) else "error"
    text = f"{text}, and cannot use the cards of {maker}: it runs without them."
    return Finding(f"PyTorch on {maker}", level, text, f"{other_build_remedy(maker)}.")


def tensorflow_checks(
    installed: Installed, driver: DriverFacts, python: str, *, has_system_cuda: bool = False
) -> list[Finding]:
    """Return what is known of TensorFlow from its files, for the cards of `driver`.

    `has_system_cuda`: see `engine.environments.gpu_builds`.
    """
    build = installed.tensorflow
    if build is None:
        return [Finding("TensorFlow", "unknown", "It is not installed in this environment.")]
    title = f"TensorFlow {build.version}"
    if not driver.makers:
        return [Finding("TensorFlow", "ok", f"{title} runs on the CPU.")]
    others = [_tensorflow_for(maker, installed) for maker in driver.makers if maker != "NVIDIA"]
    if not driver.gpus:
        return others
    return [*_tensorflow_for_nvidia(installed, driver, has_system_cuda), *others]


def _tensorflow_for(maker: GpuMaker, installed: Installed) -> Finding:
    problem = tensorflow_problem(installed, has_system_cuda=False, maker=maker)
    if not problem:
        return Finding(f"TensorFlow on {maker}", "ok", f"It is the build for GPUs of {maker}.")
    remedy = "Use a PyTorch strategy on these cards, or the CPU."
    return Finding(f"TensorFlow on {maker}", "unknown", problem, remedy)


def _tensorflow_for_nvidia(
    installed: Installed, driver: DriverFacts, has_system_cuda: bool
) -> list[Finding]:
    build = installed.tensorflow
    assert build is not None
    title = f"TensorFlow {build.version}"
    problem = tensorflow_problem(installed, has_system_cuda=has_system_cuda)
    if problem and not build.cuda:
        return [Finding("TensorFlow", "error", problem, tensorflow_remedy())]
    remedy = "Use a PyTorch strategy on this card, or a build of TensorFlow that is made for it."
    found = _for_cards(title, build.cuda, driver, build.compute_capabilities, "TensorFlow", remedy)
    if not problem or not all(check.level == "ok" for check in found):
        return found
    return [Finding("TensorFlow", "unknown", problem, tensorflow_remedy())]


def mix_check(installed: Installed, whose: str = "") -> Finding:
    """Return whether two CUDA sets lie over each other in one environment: that of `whose`
    framework, if there are several."""
    name = f"CUDA sets, {whose}" if whose else "CUDA sets"
    problem = installed.mix_problem()
    if not problem:
        return Finding(name, "ok", "No two packages own the same CUDA library.")
    owners = {each.name for shared in installed.shared_libraries() for each in shared.owners}
    wheels = " ".join(sorted(name for name in owners if name.endswith("-cu12")) or "one set")
    remedy = (
        f"Here uninstall {wheels or 'one set'}, then reinstall PyTorch; for TensorFlow, "
        f"{tensorflow_remedy()}"
    )
    return Finding(name, "error", problem, remedy)


def build_check(name: str, facts: BuildFacts) -> Finding:
    """Return what the framework says of itself after its import."""
    parts = [f"{name} {facts.version} can be imported"]
    if facts.cuda:
        parts.append(f"for CUDA {facts.cuda}")
        parts += [f"cuDNN {facts.cudnn}"] if facts.cudnn else []
        parts += [f"NCCL {facts.nccl}"] if facts.nccl else []
        parts += [f"kernels {' '.join(facts.kernels)}"] if facts.kernels else []
    return Finding(f"{name} import", "ok", f"{', '.join(parts)}.")


def kernel_for(kernels: Collection[str], capability: tuple[int, int]) -> str:
    """Return `compiled`, `PTX` (compiled at the first use), or empty: there is none for the card.

    A kernel for `sm_80` runs on all cards 8.x from 8.0 on; PTX of `compute_90` on all later ones.
    """
    is_ptx = False
    for text in kernels:
        found = _KERNELS.fullmatch(text)
        if not found:
            continue
        of = int(found[2]), int(found[3])
        if found[1] == "compute" and not found[4]:
            is_ptx = is_ptx or of <= capability
        elif of == capability or (found[4] != "a" and of[0] == capability[0] and of <= capability):
            return "compiled"
    return "PTX" if is_ptx else ""


def _for_cards(
    title: str,
    cuda: str,
    driver: DriverFacts,
    kernels: Collection[str],
    name: str,
    remedy: str,
) -> list[Finding]:
    numbers = version_numbers(cuda)
    oldest = OLDEST_DRIVER.get(numbers[0], "") if numbers else ""
    if oldest and version_numbers(driver.driver) < version_numbers(oldest):
        text = f"{title} is built for CUDA {cuda}, which needs the driver {oldest} or newer: this "
        major = oldest.partition(".")[0]
        update = f"Update the NVIDIA driver to {major} or newer"
        older = f", or install a build for CUDA {numbers[0] - 1}" if numbers[0] > 12 else ""
        return [Finding(name, "error", f"{text}machine has {driver.driver}.", f"{update}{older}.")]
    found = [
        check
        for gpu in driver.gpus
        if gpu.capability is not None
        and (check := _for_card(title, numbers, gpu, kernels, f"{name} for {gpu.label}", remedy))
    ]
    bad = [check for check in found if check.level != "ok"]
    if bad:
        return bad
    about = f"{title}, built for CUDA {cuda}, fits the driver {driver.driver} and its cards."
    return [Finding(name, "ok", about), *found]


def _for_card(
    title: str,
    cuda: Sequence[int],
    gpu: GpuFacts,
    kernels: Collection[str],
    name: str,
    remedy: str,
) -> Finding | None:
    """Return what is to be said of one card; None: nothing."""
    assert gpu.capability is not None
    card = gpu.described
    oldest = OLDEST_CAPABILITY.get(cuda[0]) if cuda else None
    if oldest and gpu.capability < oldest:
        text = f"{title} is built for CUDA {cuda[0]}, which leaves out cards before {sm(oldest)}"
        return Finding(name, "error", f"{text}: {card} cannot be used.", remedy)
    how = kernel_for(kernels, gpu.capability) if kernels else "compiled"
    if not how:
        text = f"{title} has kernels for {', '.join(kernels)}, and none for {card}."
        return Finding(name, "error", text, remedy)
    if how == "PTX" and tuple(cuda[:2]) < _FIRST_CUDA.get(gpu.capability[0], (0, 0)):
        text = (
            f"{title} has no kernels for {card}, and its CUDA {'.'.join(map(str, cuda[:2]))} is "
            "older than the card: it is known to fail there, or to compile for half an hour."
        )
        return Finding(name, "error", text, remedy)
    if how == "PTX":
        text = f"{title} compiles its kernels for {card} at the first use: that takes minutes once."
        return Finding(name, "ok", text)
    return None


def _install(python: str) -> str:
    return f"`{reinstall_command(TORCH, python)}` installs the build with CUDA."


def _old_card_torch(python: str) -> str:
    return (
        "Install a build of PyTorch for CUDA 12.6, which has kernels for cards from sm_50 on (its "
        "page for installing has it), into an environment of its own, or choose the CPU."
    )
