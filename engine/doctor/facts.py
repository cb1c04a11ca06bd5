"""What the probes have found, as types; the rules are functions over them."""

from __future__ import annotations

import msgspec

from engine.telemetry.gpu_makers import GpuMaker, gpu_maker
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice, Snapshot


class SliceFacts(msgspec.Struct, frozen=True):
    """A MIG slice."""

    uuid: str
    name: str = ""


class GpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A card that the driver counts."""

    index: int
    """The driver's number, as in `nvidia-smi`."""

    uuid: str = ""
    name: str = ""
    capability: tuple[int, int] | None = None
    memory: int = 0
    """Bytes."""

    is_divided: bool = False
    slices: tuple[SliceFacts, ...] = ()
    problem: str = ""
    """NVML's error, such as `NVMLError_GpuIsLost`; empty: the card answers."""

    problem_text: str = ""

    @property
    def label(self) -> str:
        """Such as `GPU 0`."""
        return f"GPU {self.index}"

    @property
    def maker(self) -> GpuMaker:
        """Who makes it."""
        return gpu_maker(self.uuid)

    @property
    def answers(self) -> bool:
        """Whether the card can be asked."""
        return not self.problem

    @property
    def described(self) -> str:
        """Such as `GPU 0 (NVIDIA H100, sm_90)`."""
        if self.capability is None:
            return f"{self.label} ({self.name})" if self.name else self.label
        return f"{self.label} ({self.name}, {sm(self.capability)})"


class DriverFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The NVIDIA driver, as NVML and the kernel see it, and the cards of other makers."""

    driver: str = ""
    """Such as `580.95.05`; empty: NVML does not work."""

    cuda: int = 0
    """The newest CUDA version of the driver, such as 13000; 0: not known."""

    gpus: tuple[GpuFacts, ...] = ()
    """The cards of NVIDIA."""

    other_gpus: tuple[GpuFacts, ...] = ()
    """The cards of AMD and Intel, as Linux lists them."""

    is_rocm_refused: bool = False
    """Whether this user may not open the device of ROCm, /dev/kfd."""

    problem: str = ""
    """The error of NVML, such as `NVMLError_LibraryNotFound`."""

    problem_text: str = ""
    kernel_module: str = ""
    """The version in /proc/driver/nvidia; empty: the module is not loaded."""

    cards: tuple[str, ...] = ()
    """PCI addresses of NVIDIA's cards, with or without a driver."""

    nodes: tuple[str, ...] = ()
    """Names in /dev, such as `nvidia0`."""

    is_wsl: bool = False

    @property
    def working(self) -> tuple[GpuFacts, ...]:
        """The cards that answer, of all makers."""
        return tuple(gpu for gpu in (*self.gpus, *self.other_gpus) if gpu.answers)

    @property
    def makers(self) -> tuple[GpuMaker, ...]:
        """The makers of the cards that are there."""
        return tuple(dict.fromkeys(gpu.maker for gpu in (*self.gpus, *self.other_gpus)))

    def snapshot(self) -> Snapshot:
        """Return the cards in the form of the telemetry."""
        devices = [
            DeviceSnapshot(
                id=gpu.uuid,
                kind="gpu",
                label=str(gpu.index),
                name=gpu.name,
                index=gpu.index,
                slices=tuple(MigSlice(uuid=each.uuid, name=each.name) for each in gpu.slices),
            )
            for gpu in self.working
            if not gpu.is_divided or gpu.slices
        ]
        return Snapshot(time=0.0, devices=tuple(devices))


class SystemFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What `torch.compile` and loaders need of the system, for one Python."""

    python: str
    executable: str = ""
    headers: bool
    include: str = ""
    c_compiler: str = ""
    c_error: str = ""
    cpp_compiler: str = ""
    cpp_error: str = ""
    shared_memory: int = -1
    """Bytes of /dev/shm; -1: there is none."""

    shared_memory_free: int = -1


class BuildFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A framework, as it says itself after its import."""

    version: str
    cuda: str = ""
    kernels: tuple[str, ...] = ()
    """Such as `sm_90` and `compute_90`."""

    cudnn: str = ""
    nccl: str = ""
    has_triton: bool = False


class ComputationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a device has computed."""

    errors: dict[str, float] = {}
    """Relative to the result of the CPU, by operation: `matmul bf16`."""

    failures: dict[str, str] = {}
    """Why an operation was not computed."""

    free: int = 0
    total: int = 0
    name: str = ""
    uuid: str = ""
    """As PyTorch says it, with or without `GPU-`."""

    count: int = 0
    libraries: tuple[str, ...] = ()
    """Lines of /proc/self/maps."""

    devices: int = 0
    """Of TensorFlow: how many it lists."""


class RanksFacts(msgspec.Struct, frozen=True):
    """How a sum over ranks went: `ok`, `hung`, `wrong` or `failed`."""

    state: str
    error: str = ""
    without_p2p: str = ""
    error_without_p2p: str = ""


class MirroredFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How the sum of MirroredStrategy went."""

    devices: int = 0
    sum: tuple[tuple[float, float], ...] | None = None
    """Smallest and largest element that each replica has."""

    failure: str = ""


def sm(capability: tuple[int, int]) -> str:
    """Return the name of a compute capability, such as `sm_90`."""
    return f"sm_{capability[0]}{capability[1]}"


def version_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparisons."""
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
