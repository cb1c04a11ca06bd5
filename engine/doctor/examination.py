"""Makes the checks one after the other: asks the probes, applies the rules to their facts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec

from engine.doctor import builds, computation
from engine.doctor.driver import driver_checks
from engine.doctor.facts import (
    BuildFacts,
    ComputationFacts,
    DriverFacts,
    GpuFacts,
    MirroredFacts,
    RanksFacts,
    SystemFacts,
)
from engine.doctor.finding import Finding
from engine.doctor.machine import machine_checks
from engine.doctor.probing import Answer, ask
from engine.environments.gpu_builds import has_system_cuda, tensorflow_problem, torch_problem
from engine.environments.installed import Installed, TensorflowBuild, installed_for
from engine.environments.registry import default_interpreter
from engine.telemetry.given_gpus import VISIBLE, GivenGpus, given_gpus
from engine.telemetry.gpu_makers import GpuMaker, gpu_maker, gpu_variables

DRIVER_SECONDS = 20.0
MACHINE_SECONDS = 60.0
IMPORT_SECONDS = 120.0
GPU_SECONDS = 180.0
"""The first use of a card loads hundreds of MiB, and may compile kernels."""

SUM_SECONDS = 30.0
_RANKS_SECONDS = 2 * (SUM_SECONDS + 90.0) + 10.0
"""Both sums, each with the imports of its ranks."""

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
_BY_UUID = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
T = TypeVar("T")


class Pythons(NamedTuple):
    """Paths of the Pythons whose frameworks are checked; empty: that of Traindeck."""

    torch: str = ""
    tensorflow: str = ""


OURS = Pythons()
"""The Python of Traindeck."""


def usual_pythons() -> Pythons:
    """Return what recipes of each framework are trained with. Raises UnreadableRegistry."""
    return Pythons(default_interpreter("torch"), default_interpreter("tensorflow"))


class Examination:
    """The checks of this machine, which `is_cancelled` ends.

    `quick` touches no GPU and imports no framework; `thorough` does both.
    """

    def __init__(
        self,
        pythons: Pythons = OURS,
        *,
        environment: Mapping[str, str] | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[str], None] = lambda what: None,
    ) -> None:
        """`environment` None: that of this process. `progress` is told what is checked next."""
        self.pythons = pythons
        self._environment = os.environ if environment is None else environment
        self._is_cancelled = is_cancelled
        self._progress = progress
        self._torch_works = self._tensorflow_works = True

    def quick(self) -> Iterator[Finding]:
        """Yield what the driver and the files of the packages tell. Raises Cancelled."""
        self._progress("driver")
        if (problem := self._driver_answer.problem) or self._driver_answer.facts is None:
            text = f"The question to the NVIDIA driver {problem}."
            remedy = "The driver hangs or crashes: look into `sudo dmesg`, and restart the machine."
            yield Finding("driver", "error", text, remedy)
        else:
            yield from driver_checks(self.driver, self._environment)
        yield from self._mixes()
        torch = builds.torch_checks(self._torch, self.driver, self.pythons.torch)
        tensorflow = builds.tensorflow_checks(
            self._tensorflow,
            self.driver,
            self.pythons.tensorflow,
            has_system_cuda=has_system_cuda(
                self._tensorflow, self.pythons.tensorflow, self._environment
            ),
        )
        self._torch_works = _has_good(torch)
        self._tensorflow_works = _has_good(tensorflow)
        yield from torch
        yield from tensorflow

    def machine(self) -> Iterator[Finding]:
        """Yield what the system has for compilation and loaders. Raises Cancelled."""
        self._progress("shared memory, compiler, headers")
        python = self.pythons.torch
        answer = self._ask("machine", seconds=MACHINE_SECONDS, python=python)
        facts = _converted(answer, SystemFacts)
        if facts is None:
            yield Finding("compiler", "error", f"The check of the machine {answer.problem}.")
        else:
            yield from machine_checks(facts)

    def imports(self) -> Iterator[Finding]:
        """Import each framework, and yield what it says of its build. Raises Cancelled."""
        for title, probe, python, installed in (
            ("PyTorch", "torch_build", self.pythons.torch, self._torch.torch),
            (
                "TensorFlow",
                "tensorflow_build",
                self.pythons.tensorflow,
                self._tensorflow.tensorflow,
            ),
        ):
            if installed is None:
                continue
            self._progress(f"import of {title}")
            hidden = {**_QUIET, VISIBLE: ""}
            answer = self._ask(probe, seconds=IMPORT_SECONDS, python=python, variables=hidden)
            facts = _converted(answer, BuildFacts)
            if facts is None:
                pip = f"{python or sys.executable} -m pip"
                package = installed.variant if isinstance(installed, TensorflowBuild) else "torch"
                remedy = (
                    f"Reinstall {title}: `{pip} install --force-reinstall {package}`. "
                    f"`{pip} check` may say more."
                )
                text = f"The import of {title} {answer.problem}."
                yield Finding(f"{title} import", "error", text, remedy)
                continue
            yield builds.build_check(title, facts)
            if title == "PyTorch" and facts.kernels:
                found = builds.torch_checks(self._torch, self.driver, python, facts.kernels)
                yield from (check for check in found if " for " in check.name)

    def on_gpus(self) -> Iterator[Finding]:
        """Compute on each GPU that was given, and over all of them. Raises Cancelled."""
        given = self.given
        if not given.uuids:
            text = "There is no GPU that may be used here: nothing was computed on one."
            yield Finding("computation", "unknown", text)
            return
        gpus = {gpu.uuid: gpu for gpu in self.driver.working}
        slices = {part.uuid: gpu for gpu in gpus.values() for part in gpu.slices}
        whole = [uuid for uuid in given.uuids if uuid in gpus]
        if self._torch_works:
            mine = [uuid for uuid in given.uuids if self._has_torch(uuid)]
            for uuid in mine:
                yield self._torch_on(uuid, gpus.get(uuid) or slices[uuid])
            yield self._ranks([gpus[uuid] for uuid in whole if uuid in mine])
        else:
            yield Finding(
                "PyTorch computes", "unknown", "Not checked: see what is said of PyTorch."
            )
        if self._tensorflow_works:
            mine = [uuid for uuid in whole or given.uuids[:1] if self._has_tensorflow(uuid)]
            yield from self._tensorflow_on(mine) if mine else ()
        else:
            yield Finding(
                "TensorFlow computes", "unknown", "Not checked: see what is said of TensorFlow."
            )

    def thorough(self) -> Iterator[Finding]:
        """Yield all checks. Raises Cancelled."""
        yield from self.quick()
        yield from self.machine()
        yield from self.imports()
        yield from self.on_gpus()

    def checks(self, *, on_gpus: bool) -> Iterator[Finding]:
        """Yield all checks; without `on_gpus` those that import no framework and touch no GPU.

        Raises Cancelled.
        """
        if on_gpus:
            yield from self.thorough()
        else:
            yield from self.quick()
            yield from self.machine()

    @cached_property
    def driver(self) -> DriverFacts:
        """What the driver says; empty if it does not answer."""
        return _converted(self._driver_answer, DriverFacts) or DriverFacts()

    @property
    def given(self) -> GivenGpus:
        """The GPUs that this process was given."""
        return given_gpus(self.driver.snapshot(), self._environment)

    @cached_property
    def _driver_answer(self) -> Answer:
        return self._ask("driver", seconds=DRIVER_SECONDS)

    @cached_property
    def _torch(self) -> Installed:
        return installed_for(self.pythons.torch)

    @cached_property
    def _tensorflow(self) -> Installed:
        return installed_for(self.pythons.tensorflow)

    def _torch_on(self, uuid: str, gpu: GpuFacts) -> Finding:
        self._progress(f"PyTorch on {gpu.label}")
        answer = self._ask(
            "torch_gpu",
            _device_type(gpu.maker),
            seconds=GPU_SECONDS,
            python=self.pythons.torch,
            variables=_visible([uuid]),
        )
        facts = _converted(answer, ComputationFacts)
        if facts is None:
            remedy = "`sudo dmesg` may hold an error of the driver, such as an `Xid` of NVIDIA's; "
            remedy += "another program may hold the card."
            text = f"The computation on {gpu.described} {answer.problem}."
            return Finding(f"PyTorch computes on {gpu.label}", "error", text, remedy)
        return computation.torch_gpu_check(facts, gpu, uuid, self._torch)

    def _ranks(self, gpus: list[GpuFacts]) -> Finding:
        if len(gpus) < 2:
            return Finding("NCCL", "unknown", "There are not two undivided GPUs to sum over.")
        self._progress("sum of NCCL over two GPUs")
        first = gpus[:2]
        backend = "xccl" if _device_type(first[0].maker) == "xpu" else "nccl"
        answer = self._ask(
            "torch_ranks",
            *(backend, str(len(first)), str(SUM_SECONDS)),
            seconds=_RANKS_SECONDS,
            python=self.pythons.torch,
            variables=_visible([gpu.uuid for gpu in first]),
        )
        facts = _converted(answer, RanksFacts)
        if facts is None:
            return Finding("NCCL", "error", f"The sum over two GPUs {answer.problem}.")
        return computation.ranks_check(facts, [gpu.label for gpu in first], SUM_SECONDS)

    def _tensorflow_on(self, uuids: list[str]) -> Iterator[Finding]:
        python = self.pythons.tensorflow
        visible = {**_QUIET, **_visible(uuids)}
        self._progress("TensorFlow on GPUs")
        answer = self._ask(
            "tensorflow_gpu",
            "GPU",
            "compute",
            seconds=GPU_SECONDS,
            python=python,
            variables=visible,
        )
        facts = _converted(answer, ComputationFacts)
        if facts is None:
            text = f"The computation of TensorFlow {answer.problem}."
            yield Finding("TensorFlow devices", "error", text, "`sudo dmesg` may say more.")
            return
        yield from computation.tensorflow_checks(facts, uuids)
        if facts.devices < 2:
            yield Finding("MirroredStrategy", "unknown", "TensorFlow has fewer than two GPUs.")
            return
        self._progress("sum of MirroredStrategy")
        answer = self._ask(
            "tensorflow_gpu",
            "GPU",
            "mirrored",
            seconds=GPU_SECONDS,
            python=python,
            variables=visible,
        )
        mirrored = _converted(answer, MirroredFacts)
        if mirrored is None:
            remedy = "Choose another all-reduce in the form (hierarchical), or a PyTorch strategy."
            yield Finding("MirroredStrategy", "error", f"Its sum {answer.problem}.", remedy)
        else:
            yield computation.mirrored_check(mirrored)

    def _has_torch(self, uuid: str) -> bool:
        """Whether the installed PyTorch is built for the maker of a card."""
        return not torch_problem(self._torch, maker=gpu_maker(uuid))

    def _has_tensorflow(self, uuid: str) -> bool:
        """Whether the installed TensorFlow is built for the maker of a card."""
        maker = gpu_maker(uuid)
        if maker == "NVIDIA":
            return True
        return not tensorflow_problem(self._tensorflow, has_system_cuda=False, maker=maker)

    def _ask(self, probe: str, *arguments: str, **options: Any) -> Answer:
        return ask(probe, *arguments, is_cancelled=self._is_cancelled, **options)

    def _mixes(self) -> Iterator[Finding]:
        if self.pythons.torch == self.pythons.tensorflow:
            yield builds.mix_check(self._torch)
        else:
            yield builds.mix_check(self._torch, "PyTorch")
            yield builds.mix_check(self._tensorflow, "TensorFlow")


def _visible(gpus: Sequence[str]) -> dict[str, str]:
    """Return the variables with which a probe sees `gpus` alone."""
    return {**_BY_UUID, **gpu_variables(gpus)}


def _device_type(maker: GpuMaker) -> str:
    """Return what PyTorch calls the cards of a maker."""
    return "xpu" if maker == "Intel" else "cuda"


def _converted(answer: Answer, kind: type[T]) -> T | None:
    return None if answer.facts is None else msgspec.convert(answer.facts, kind)


def _has_good(checks: Iterable[Finding]) -> bool:
    return any(check.level == "ok" for check in checks)
