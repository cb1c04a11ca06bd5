"""What the script calls an object: the variable that holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

_FRAMES = 40
_EDGES = "_- "
_WRAPPED_AS = ("optimizer", "_optimizer", "_orig_mod", "module")


def variables_above(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """Names and values of the local and global variables of a frame and those that called it,
    and of the attributes of `self`."""
    for _ in range(_FRAMES):
        if frame is None:
            return
        if "site-packages" not in frame.f_code.co_filename:
            local = dict(frame.f_locals)
            yield from local.items()
            owner = local.get("self")
            if owner is not None and hasattr(owner, "__dict__"):
                yield from list(vars(owner).items())
            if frame.f_code.co_name != "<module>":
                yield from list(frame.f_globals.items())
        frame = frame.f_back


def _wraps(value: Any, thing: Any) -> bool:
    """Whether it is a library's wrapper of the object, such as Lightning's of an optimizer."""
    try:
        own = object.__getattribute__(value, "__dict__")
        return any(own.get(name) is thing for name in _WRAPPED_AS)
    except Exception:
        return False


def _place_in(value: Any, thing: Any) -> str:
    """Return the key or the place of the object in a dict, list or tuple; empty: it has none.

    Code of the script's own is not run: the `items` of a lazy dict, such as that of transformers'
    models, imports hundreds of modules.
    """
    kind = type(value)  # `isinstance` would ask a proxy for the class of what it stands for
    if issubclass(kind, dict):
        # A key that is a tensor has its numbers as its text.
        found = (k for k, v in list(dict.items(value)) if v is thing and type(k) in (str, int))
        return next(map(str, found), "")
    for base in (list, tuple):
        if issubclass(kind, base) and base.__len__(value) < 100:
            return next((str(n) for n, v in enumerate(base.__iter__(value)) if v is thing), "")
    return ""


def name_of_object(thing: Any, frame: FrameType | None, kinds: Sequence[str]) -> str:
    """Return the variable's name without the word for what it is: `optimizerD` -> `D`.

    Empty if no variable holds the object.
    """
    for name, value in variables_above(frame):
        found = name
        if value is not thing and not _wraps(value, thing):
            found = _place_in(value, thing)
            if not found:
                continue
        if found in ("self", "optimizer", "opt", "o", "optim", "model", "module", "net"):
            continue
        for kind in kinds:
            shorter = re.sub(rf"^{kind}(?=[A-Z_\d]|$)|_?{kind}$", "", found, flags=re.IGNORECASE)
            if shorter != found:
                found = shorter
                break
        cleaned = re.sub(r"[^\w.]+", "_", found).strip(_EDGES)
        if cleaned:
            return cleaned
    return ""


_EPOCHS = re.compile(r"(n|num|max|total|nb)?_?(train_)?epochs|epochs?_(num|count|total)", re.I)
_STEPS = re.compile(r"(n|num|max|total)_?(train_?)?(iters|steps|iterations)", re.I)
_LARGEST_TOTAL = 10**9


def planned_totals(frame: FrameType | None) -> dict[str, int | None]:
    """Return how many epochs or steps the script plans, by the names of its settings.

    They are plain numbers in variables such as `epochs`, `max_iters` or `args.epochs`.
    """
    epochs: int | None = None
    steps: int | None = None
    for name, value in variables_above(frame):
        found = [(name, value)]
        kind = type(value).__name__
        if kind in ("Namespace", "SimpleNamespace", "CfgNode", "DictConfig") or (
            kind == "dict" and len(value) < 200
        ):
            try:
                settings = value if kind in ("dict", "DictConfig") else vars(value)
                found = [(str(key), setting) for key, setting in list(settings.items())]
            except Exception:
                continue
        for key, setting in found:
            if type(setting) is not int or not 0 < setting < _LARGEST_TOTAL:
                continue
            if epochs is None and _EPOCHS.fullmatch(key):
                epochs = setting
            elif steps is None and _STEPS.fullmatch(key):
                steps = setting
    return {"epochs": epochs, "total_steps": None if epochs else steps}
