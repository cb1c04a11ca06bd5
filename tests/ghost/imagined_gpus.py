"""The GPUs that do not exist, for a whole process: import this before torch.

`imagined_gpus()` is the context in which they are there. The `Observer` that it gives notes what
the host waits for, what stays in device memory, and in which types matrices are multiplied.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from tests.ghost import library

assert "torch" not in sys.modules, "PyTorch has looked for GPUs already: import this before it"
_library = ctypes.CDLL(str(library.built()), ctypes.RTLD_GLOBAL)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch._dynamo  # noqa: E402  (before anything is replaced)
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.multiprocessing import reductions  # noqa: E402
from torch.nn.parallel import comm  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

COUNT = 8

GIB = 2**30

_FINDS_NOTHING = "finds_nothing"
"""An attribute of tensors whose value, where it is read, is 0: what looks for errors finds none."""

_aten = torch.ops.aten

_WeakReference: Any = reductions.StorageWeakRef
"""To the memory of a tensor, which may live on without any tensor of Python."""

_WITH_UNKNOWN_SIZE = {
    *("nonzero", "masked_select", "unique2", "_unique2", "unique_dim", "unique_consecutive"),
    *("equal", "bincount", "repeat_interleave", "is_nonzero"),
}
"""Operations whose result has a size that the host must wait for."""

_CORE = (
    *("torch/_subclasses", "torch/_prims", "torch/_refs", "torch/_decomp", "torch/_dynamo"),
    *("torch/_compile", "torch/_ops", "torch/_tensor", "torch/_jit_internal", "torch/_utils"),
    *("torch/utils/_", "torch/_inductor", "torch/fx", "torch/profiler", "torch/_logging"),
    *("torch/_meta_registrations", "torch/_library", "torch/_higher_order_ops", "torch/overrides"),
    *("/contextlib.py", "/_stats.py", "/tests/ghost/", "/unittest/mock.py", "/index_check.py"),
)
"""Parts of file names that tell nothing about who asked for an operation."""


def _place() -> str:
    """Say who asked for an operation: the function of the engine, and that of a library below."""
    frame: types.FrameType | None = sys._getframe(2)
    library_place = own_place = ""
    while frame is not None and not own_place:
        name = frame.f_code.co_filename
        if not any(part in name for part in _CORE):
            if "/engine/" in name or "/user_recipe" in name:
                own_place = _short(frame)
            elif not library_place:
                library_place = _short(frame)
        frame = frame.f_back
    return f"{own_place} > {library_place}" if library_place else own_place


def _short(frame: types.FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    parts = path.parts[-2:] if "site-packages" in path.parts else path.parts[-3:]
    parts = parts[parts.index("engine") + 1 :] if "engine" in parts else parts
    return f"{'/'.join(parts)} {frame.f_code.co_name}"


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation. What would be read from a GPU is answered with 1."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: Counter[str] = Counter()
        """How often the host waits, by kind and place."""

        self.computed_in: set[tuple[int, torch.dtype]] = set()
        """In which types matrices were multiplied, by the number of the GPU."""

        self.limit: int | None = None
        """An allocation beyond these bytes raises torch.OutOfMemoryError, as on a full card."""

        self.pinned_by_copies = 0
        """Bytes of the host's memory that PyTorch has pinned for copies that nothing waits for: it
        gives them to later copies, and never back to the system."""

        self._memory: dict[int, tuple[Any, str]] = {}
        self._pinned: dict[int, Any] = {}

    def note(self, kind: str) -> None:
        """Note that the host waits here."""
        self.waits[f"{kind}: {_place()}"] += 1

    def taken_waits(self) -> dict[str, int]:
        """Return the waits since the last call."""
        waits, self.waits = dict(self.waits), Counter()
        return waits

    def device_memory(self) -> dict[str, int]:
        """Return the bytes in use on all GPUs, by the place that allocated them."""
        found: Counter[str] = Counter()
        for key, (reference, place) in list(self._memory.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self._memory[key]
            elif storage.nbytes():  # FSDP keeps storages and takes their memory away
                found[place] += storage.nbytes()
        return dict(found)

    def pin(self, tensor: torch.Tensor) -> None:
        """Treat the memory of a CPU tensor as pinned."""
        self._pinned[tensor.untyped_storage()._cdata] = _WeakReference(tensor.untyped_storage())

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Return whether the memory of `tensor` is pinned."""
        found = self._pinned.get(tensor.untyped_storage()._cdata)
        return found is not None and not found.expired()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if device is not None and device.type == "cuda" and device.index is None:
            # Fake tensors would take the first device that was ever current.
            kwargs["device"] = torch.device("cuda", _library.imagined_current_device())
        pins = kwargs.pop("pin_memory", False)
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        name = func.overloadpacket.__name__
        if name == "device":
            return func(*args, **kwargs)
        if func is _aten._local_scalar_dense.default and first is not None:
            if first.is_cuda:
                self.note("read")
            if isinstance(first, FakeTensor):
                if getattr(first, _FINDS_NOTHING, False):
                    return 0
                if first.dtype == torch.bool:
                    return True
                return 1.0 if first.is_floating_point() else 1
        if first is not None and first.is_cuda and name in _WITH_UNKNOWN_SIZE:
            self.note(f"size of {name}")
        if name == "index" and any(
            i is not None and i.dtype in (torch.bool, torch.uint8) and i.is_cuda for i in args[1]
        ):
            self.note("size of index by mask")
        if name in ("_to_copy", "copy_") and first is not None:
            self._note_copy(name, first, args, kwargs)
        if name == "nonzero" and first is not None:
            result = first.new_empty((0, first.ndim), dtype=torch.int64)
        else:
            result = func(*args, **kwargs)
        if name == "any":
            setattr(result, _FINDS_NOTHING, True)
        if name == "_amp_foreach_non_finite_check_and_unscale_":
            setattr(args[1], _FINDS_NOTHING, True)
        if name in ("mm", "addmm", "convolution") and result.is_cuda:
            self.computed_in.add((result.device.index, result.dtype))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                if pins:
                    self.pin(tensor)
                if tensor.is_cuda:
                    self._note_memory(tensor)
        return result

    def _note_copy(
        self, name: str, first: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if name == "copy_":
            source, target = args[1], first.device
            lazily = bool(kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
        else:
            source, target = first, torch.device(kwargs.get("device") or first.device)
            lazily = bool(kwargs.get("non_blocking"))
        if source.is_cuda and target.type == "cpu":
            if lazily and name == "_to_copy":  # the host waits for it when it needs the values
                self.pinned_by_copies += source.numel() * source.element_size()
            else:
                self.note("copy to the host")
        elif source.is_cpu and target.type == "cuda":
            if not lazily:
                self.note("blocking copy to the GPU")
            elif not self.is_pinned(source):
                self.note("copy from memory that is not pinned")

    def _note_memory(self, tensor: torch.Tensor) -> None:
        if type(tensor) is not FakeTensor:
            return
        storage = tensor.untyped_storage()
        known = self._memory.get(storage._cdata)
        if known is not None and not known[0].expired():
            return
        if self.limit is not None:
            used = sum(self.device_memory().values())
            if used + storage.nbytes() > self.limit:
                raise torch.OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {storage.nbytes() / 2**20:.2f} MiB. "
                    f"GPU {tensor.device.index} has a total capacity of 80.00 GiB"
                )
        self._memory[storage._cdata] = (_WeakReference(storage), _place())


class Event:
    """In the place of torch.cuda.Event; everything is done at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        """Do nothing."""

    wait = record

    def query(self) -> bool:
        """Return that the work before is done."""
        return True

    def elapsed_time(self, _: Event) -> float:
        """Return a millisecond."""
        return 1.0

    def synchronize(self) -> None:
        """Note a wait."""
        _observer().note("event")


class Stream:
    """In the place of torch.cuda.Stream."""

    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def wait_stream(self, *_: Any) -> None:
        """Do nothing: a GPU waits here, and not the host."""

    wait_event = wait_stream

    def record_event(self, event: Event | None = None) -> Event:
        """Return an event."""
        return event or Event()

    def synchronize(self) -> None:
        """Note a wait."""
        _observer().note("stream")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Replica(nn.Module):
    """In the place of DistributedDataParallel, whose C++ code reads values; exchanges nothing."""

    made: ClassVar[list[dict[str, Any]]] = []
    """The options of those that were made."""

    def __init__(self, module: nn.Module, device_ids: Any = None, **options: Any) -> None:
        super().__init__()
        if device_ids is not None:
            assert {p.device for p in module.parameters()} == {torch.device(d) for d in device_ids}
        self.module = module
        self.made.append(options)
        self._buckets = [torch.empty_like(p) for p in module.parameters() if p.requires_grad]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Return a context without a meaning."""
        return contextlib.nullcontext()

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return {}

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: nn.Module, names: list[str]) -> None:
        pass


_current: Observer | None = None


def _observer() -> Observer:
    assert _current is not None
    return _current


def _apply(
    module: nn.Module, function: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
) -> nn.Module:
    """Do what nn.Module._apply does with tensors of a GPU; for fake ones it has another way."""
    for child in module.children() if recurse else ():
        child._apply(function)  # type: ignore[no-untyped-call]
    for key, parameter in module._parameters.items():
        if parameter is None:
            continue
        with torch.no_grad():
            applied = function(parameter)
        if isinstance(parameter, DTensor):
            swap: Any = torch.utils.swap_tensors
            swap(parameter, nn.Parameter(applied, parameter.requires_grad))
        elif not isinstance(parameter, FakeTensor):  # a lazy one has been made without a fake mode
            module._parameters[key] = nn.Parameter(applied, parameter.requires_grad)
        else:
            parameter.data = applied
        if parameter.grad is not None:
            parameter.grad.data = function(parameter.grad)
    for key, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[key] = function(buffer)
    return module


_data: Any = torch.Tensor.data


def _set_data(tensor: FakeTensor, value: FakeTensor) -> None:
    """Set `tensor.data`: a fake tensor keeps its device beside its memory."""
    _data.__set__(tensor, value)
    tensor.fake_device = value.fake_device


def _numpy(tensor: torch.Tensor, **_: Any) -> np.ndarray:
    if tensor.is_cuda:
        raise TypeError("can't convert cuda device type tensor to numpy")
    return np.ones(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _tolist(tensor: torch.Tensor) -> Any:
    if tensor.is_cuda:
        _observer().note("read")
    return np.ones(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")).tolist()


def _pin_memory(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    if tensor.is_cuda:
        raise RuntimeError("only dense CPU tensors can be pinned")
    pinned = tensor.clone()
    _observer().pin(pinned)
    return pinned


def _is_pinned(tensor: torch.Tensor, *_: Any) -> bool:
    return _observer().is_pinned(tensor)


def _on_current(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return `make` with the current GPU for `cuda`: fake tensors would take the first one."""

    def made(*args: Any, **kwargs: Any) -> torch.Tensor:
        if str(kwargs.get("device")) == "cuda":
            kwargs["device"] = torch.device("cuda", _library.imagined_current_device())
        return make(*args, **kwargs)

    return made


def _index(device: Any = None) -> int:
    if device is None:
        return int(_library.imagined_current_device())
    if isinstance(device, int):
        return device
    return torch.device(device).index or 0


class _Device(contextlib.ContextDecorator):
    """In the place of torch.cuda.device."""

    def __init__(self, device: Any) -> None:
        self._index = _index(device)

    def __enter__(self) -> None:
        self._before = _index()
        _library.imagined_set_device(self._index)

    def __exit__(self, *_: object) -> None:
        _library.imagined_set_device(self._before)


class _Copies:
    """The copies between GPUs of nn.DataParallel, whose C++ code a build without CUDA lacks."""

    @staticmethod
    def scatter(tensor: torch.Tensor, devices: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
        parts = tensor.chunk(len(devices), 0)
        return tuple(
            part.to(torch.device("cuda", _index(d)), non_blocking=True)
            for part, d in zip(parts, devices, strict=False)
        )

    @staticmethod
    def gather(tensors: Any, dim: int = 0, destination: Any = None) -> torch.Tensor:
        target = torch.device("cuda", _index(destination))
        return torch.cat([tensor.to(target, non_blocking=True) for tensor in tensors], dim)

    @staticmethod
    def broadcast_coalesced(tensors: Any, devices: Any, *_: Any) -> list[tuple[Any, ...]]:
        targets = [torch.device("cuda", _index(device)) for device in devices]
        return [tuple(t.to(d, non_blocking=True) for t in tensors) for d in targets]

    @staticmethod
    def reduce_add_coalesced(inputs: Any, destination: Any = None, *_: Any) -> tuple[Any, ...]:
        target = torch.device("cuda", _index(destination))
        return tuple(
            sum((part.to(target, non_blocking=True) for part in parts[1:]), parts[0].to(target))
            for parts in zip(*inputs, strict=True)
        )


class _ObservedThread(threading.Thread):
    """A thread of nn.DataParallel; one runs after the other, because a fake mode has one user.

    What is local to a thread in PyTorch, such as autocast, stays so.
    """

    def start(self) -> None:
        super().start()
        self.join()

    def run(self) -> None:
        device = _index()
        with contextlib.ExitStack() as stack:
            stack.enter_context(_fake_mode())
            stack.enter_context(_observer())
            super().run()
        _library.imagined_set_device(device)


def _fake_mode() -> FakeTensorMode:
    assert _mode is not None
    return _mode


_mode: FakeTensorMode | None = None


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _of_cuda() -> dict[str, Any]:
    """Return what torch.cuda offers where there are GPUs."""
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing,
        "_lazy_init": _nothing,
        "device_count": lambda: COUNT,
        "current_device": _index,
        "set_device": lambda device: _library.imagined_set_device(_index(device)),
        "device": _Device,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_properties": lambda device=None: types.SimpleNamespace(
            total_memory=80 * GIB, multi_processor_count=132, name="Imagined"
        ),
        "mem_get_info": lambda device=None: (70 * GIB, 80 * GIB),
        "memory_reserved": lambda device=None: 0,
        "is_current_stream_capturing": lambda: False,
        "memory_allocated": lambda device=None: 0,
        "empty_cache": _nothing,
        "get_rng_state": lambda device="cuda": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": _nothing,
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "is_bf16_supported": lambda *_: True,
        "Event": Event,
        "Stream": Stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "synchronize": lambda *_: _observer().note("device"),
    }


@contextlib.contextmanager
def imagined_gpus(current: int = 0) -> Iterator[Observer]:
    """In this context there are eight GPUs, of which `current` is the current one."""
    global _current, _mode
    optimizer: Any = sys.modules["torch.optim.optimizer"]  # torch.optim hides the name
    supported = optimizer._foreach_supported_types
    threads = types.SimpleNamespace(Thread=_ObservedThread, Lock=threading.Lock)
    with contextlib.ExitStack() as stack:

        def replace(owner: Any, name: str, new: Any, **options: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, new, **options))

        for name, new in _of_cuda().items():
            replace(torch.cuda, name, new)
        for name in ("scatter", "gather", "broadcast_coalesced", "reduce_add_coalesced"):
            replace(comm, name, getattr(_Copies, name))
        replace(sys.modules["torch.nn.parallel.parallel_apply"], "threading", threads)
        replace(nn.Module, "_apply", _apply)
        replace(optimizer, "_foreach_supported_types", [*supported, FakeTensor])
        replace(sys.modules["torch._subclasses.fake_tensor"], "init_gpu_context", _nothing)
        replace(FakeTensorMode, "avoid_device_init", True)  # or it computes constants there
        for name in ("tensor", "as_tensor"):
            replace(torch, name, _on_current(getattr(torch, name)))
        replace(FakeTensor, "data", property(_data.__get__, _set_data), create=True)
        replace(FakeTensor, "numpy", _numpy, create=True)
        replace(FakeTensor, "tolist", _tolist)
        replace(FakeTensor, "pin_memory", _pin_memory, create=True)
        replace(FakeTensor, "is_pinned", _is_pinned, create=True)
        # A fake mode has one user: backward passes run in the thread that asks for them.
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        _library.imagined_set_device(current)
        _mode = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        _current = stack.enter_context(Observer())
        yield _current
