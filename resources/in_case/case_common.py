"""What the programs of a failure file share; it needs the standard library only."""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import pathlib
import re
import sys
import threading
import traceback
from collections import namedtuple
from collections.abc import Callable
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
STEP: dict[str, Any] = json.loads((HERE / "step.json").read_text("utf-8"))
SAMPLE_SECONDS = 20.0
"""A sample that is read for so long hangs."""

OURS = ("traindeck", "engine", "gui", "resources")
THE_SAME, OTHERWISE, NOT_AT_ALL, CANNOT = 1, 3, 0, 2
"""Exit codes."""

_SCARCE = ("out of memory", "allocate memory", "not enough memory", "OOM when allocating")


class CannotTry(Exception):
    """The step cannot be done here; the text says why."""


def read_tensors(part: str, make: Callable[[str, list[int], bytearray], Any]) -> dict[str, Any]:
    """Read a safetensors file, of which nothing is executed: `make(type, shape, bytes)`."""
    file = HERE / (part + ".safetensors")
    if not file.exists():
        return {}
    data = bytearray(file.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:begin]).items():
        first, last = entry["data_offsets"]
        found[name] = make(entry["dtype"], entry["shape"], data[begin + first : begin + last])
    return found


def batch_of(tree: Any, kept: dict[str, Any], random: Callable[[str, list[int]], Any]) -> Any:
    """Put the batch together; `random(type, shape)` stands in for what has only a size."""
    if tree is None:
        raise CannotTry("its batch is not in the file")
    if "tensor" in tree:
        name = tree["tensor"]
        return kept[name] if name in kept else random(tree["dtype"], tree["shape"])
    if "value" in tree:
        return tree["value"]
    if "float" in tree or "int" in tree:
        return float(tree["float"]) if "float" in tree else int(tree["int"])
    if "bytes" in tree:
        return tree["bytes"].encode("latin-1")
    if "dict" in tree:
        return {key: batch_of(each, kept, random) for key, each in tree["dict"]}
    if "left_out" in tree:
        raise CannotTry("the batch holds an object that no file can keep: " + tree["left_out"])
    values = [batch_of(each, kept, random) for each in tree.get("list", tree.get("tuple"))]
    if "fields" in tree:
        return namedtuple("Batch", tree["fields"])(*values)
    return values if "list" in tree else tuple(values)


def recipe() -> ModuleType:
    """Import the recipe as an ordinary module."""
    sys.path.insert(0, str(HERE / "code"))
    file = HERE / "code" / STEP["recipe"]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        is_ours = (error.name or "").partition(".")[0] in OURS
        what = "which is a part of Traindeck" if is_ours else "which is not installed here"
        raise CannotTry(f"the recipe imports {error.name}, {what}") from error
    return module


def call(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Call a function of the recipe with those settings of the run that it takes."""
    takes = inspect.signature(function).parameters
    own = {name: value for name, value in STEP["settings"].items() if name in takes}
    return function(*arguments, **{**own, **more})


def make_model(module: ModuleType) -> Any:
    """Call model() of the recipe; one that takes the data needs them."""
    if "data" in inspect.signature(module.model).parameters:
        return call(module.model, data=datasets(module))
    return call(module.model)


def datasets(module: ModuleType) -> Any:
    """Call datasets() of the recipe, which reads the data of the run: the file holds none."""
    try:
        return call(module.datasets)
    except Exception as error:
        if STEP["kind"] == "start" and type(error).__name__ == STEP["error"]:
            raise
        traceback.print_exc()
        raise CannotTry(f"datasets() needs the data of the run: {error}") from error


def training_data(module: ModuleType) -> Any:
    """Return the data set of the training, without a loader around it."""
    given = datasets(module)
    data = given[0] if isinstance(given, tuple) else given
    return getattr(data, "dataset", data)


def run(do_step: Callable[[ModuleType], float]) -> int:
    """Do what failed, say whether it fails as it did in the run, and return the exit code."""
    for text in STEP["notes"]:
        print("note:", text)
    kind = STEP["kind"]
    try:
        module = recipe()
        if kind == "hang":
            found = _find_hanging(training_data(module))
            code, text = (THE_SAME, found) if found else (NOT_AT_ALL, "every sample was read")
            return _verdict(code, text)
        if kind == "sample":
            training_data(module)[STEP["index"]]
            return _verdict(NOT_AT_ALL, "the sample was read: other data, perhaps")
        if kind == "start":
            make_model(module)
            datasets(module)
            return _verdict(NOT_AT_ALL, "model() and datasets() did not fail")
        loss = do_step(module)
    except CannotTry as error:
        return _verdict(CANNOT, str(error))
    except Exception as error:
        traceback.print_exc()
        return _verdict(THE_SAME if _is_the_same(error) else OTHERWISE, type(error).__name__)
    is_same = kind == "not finite" and not math.isfinite(loss)
    return _verdict(THE_SAME if is_same else NOT_AT_ALL, f"the loss is {loss}")


def _verdict(code: int, text: str) -> int:
    words = {
        THE_SAME: "it fails as in the run",
        OTHERWISE: "it fails in another way",
        NOT_AT_ALL: "it does not fail",
        CANNOT: "it cannot be tried here",
    }
    print(f"repro: {words[code]}: {text}", flush=True)
    return code


def _is_the_same(error: Exception) -> bool:
    if STEP["kind"] == "memory":
        is_scarce = any(word in str(error) for word in _SCARCE)
        return is_scarce or isinstance(error, MemoryError)
    is_named = type(error).__name__ == STEP["error"]
    if STEP["kind"] == "sample":  # a loader process puts a traceback around the text
        return is_named and _text(str(error)) in _text(STEP["message"])
    return is_named and _text(str(error)) == _text(STEP["message"])


def _text(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text.strip())


def _find_hanging(data: Any) -> str:
    """Read the samples from the step on, and say which one is read for ever."""
    try:
        import numpy

        shuffled = numpy.random.RandomState([STEP["seed"], STEP["epoch"]]).permutation(len(data))
        order = [int(index) for index in shuffled]
    except ImportError:
        order = list(range(len(data)))
    for index in [*STEP["reading"], *order[STEP["batch"] * STEP["batch_size"] :]]:
        reader = threading.Thread(target=_read_sample, args=(data, index), daemon=True)
        reader.start()
        reader.join(SAMPLE_SECONDS)
        if reader.is_alive():
            print("".join(traceback.format_stack(sys._current_frames()[reader.ident or 0])))
            return f"sample {index} was not read within {SAMPLE_SECONDS:g} s"
    return ""


def _read_sample(data: Any, index: int) -> None:
    data[index]
