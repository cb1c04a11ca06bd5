"""The things that a checkpoint holds: how each one's state is read and restored."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Any

from traindeck._errors import TraindeckError
from traindeck._state.plain import from_plain, to_plain, with_mesh

PLACED = "placed"
"""Begins the name of what was placed, and not kept by a name of its own."""


class Kept:
    """What the script keeps, by name, in the order in which it was named."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._placed: list[Any] = []
        self._saved: dict[str, Any] | None = None
        self.mesh: Any = None
        """The devices over which FSDP has divided what was placed; None: nothing is divided."""

    def __bool__(self) -> bool:
        return bool(self._named or self._placed)

    def things(self) -> dict[str, Any]:
        """Return what a checkpoint holds, by name: a placed thing that is kept has that name."""
        named = {id(unwrapped(thing)) for thing in self._named.values()}
        placed = {
            f"{PLACED}.{number}": thing
            for number, thing in enumerate(self._placed)
            if id(unwrapped(thing)) not in named
        }
        return self._named | placed

    def is_kept(self, thing: Any) -> bool:
        """Whether the state of `thing` is in the checkpoints."""
        found = (*self._named.values(), *self._placed)
        return any(unwrapped(thing) is unwrapped(kept) for kept in found)

    def add(self, things: dict[str, Any]) -> None:
        """Keep `things`; restore them at once if the run resumes. Raises TraindeckError."""
        for name, thing in things.items():
            if not has_state(thing):
                raise TraindeckError(
                    f"keep({name}=...) needs an object with state_dict() and load_state_dict(), a "
                    f"dict, a list, or variables of TensorFlow, not a {type(thing).__name__}."
                )
            if name.startswith(PLACED) or self._named.get(name, thing) is not thing:
                raise TraindeckError(f"keep({name}=...): another thing has the name {name!r}.")
            self._named[name] = thing
            if self._saved is not None:
                if name not in self._saved:
                    raise TraindeckError(
                        f"The checkpoint has no {name!r}; it has {_listed(self._saved)}. Resume "
                        "with the script that has saved it, or begin a new run."
                    )
                _restore(name, thing, self._saved[name], self.mesh)

    def replace(self, things: dict[str, Any]) -> None:
        """Keep `things` instead of others of these names; nothing is restored yet."""
        self._named |= things

    def add_placed(self, things: Iterable[Any]) -> None:
        """Keep what was placed, unless `add` names it later."""
        for thing in things:
            if not has_state(thing):
                continue
            name = f"{PLACED}.{len(self._placed)}"
            self._placed.append(thing)
            if self._saved is not None and name in self._saved:
                _restore(name, thing, self._saved[name], self.mesh)

    def states(self) -> dict[str, Any]:
        """Return the plain states. Raises TraindeckError for what a checkpoint cannot hold."""
        return {
            name: to_plain(state_of(t), f"keep({name}=...)") for name, t in self.things().items()
        }

    def resume_from(self, saved: dict[str, Any] | None) -> None:
        """Restore from these plain states whatever is kept from now on; None: nothing."""
        self._saved = saved

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore everything from plain states. Raises TraindeckError if the names differ."""
        things = self.things()
        if missing := saved.keys() - things.keys():
            raise TraindeckError(
                f"The checkpoint has {_listed(missing)}, which the script has not kept or placed "
                "before its loop. Resume with the script that has saved it, or begin a new run."
            )
        for name, thing in things.items():
            if name not in saved:
                raise TraindeckError(
                    f"The checkpoint has no {name!r}; it has {_listed(saved)}. Resume with the "
                    "script that has saved it, or begin a new run."
                )
            _restore(name, thing, saved[name], self.mesh)


def has_state(thing: Any) -> bool:
    """Whether the state of `thing` can be read and restored."""
    if isinstance(thing, (dict, list, random.Random)) or _has_methods(thing):
        return True
    return _is_generator(thing) or _variables(thing) is not None


def unwrapped(thing: Any) -> Any:
    """Return a model itself, without what a strategy or a compiler has put around it."""
    if "torch" not in sys.modules:
        return thing
    from traindeck import _torch_ranks

    return _torch_ranks.unwrapped(thing)


def state_of(thing: Any) -> Any:
    """Return the state of `thing`, which shares its tensors."""
    if isinstance(thing, (dict, list)):
        return thing
    if isinstance(thing, random.Random):
        return thing.getstate()
    if _is_generator(thing):
        return thing.get_state() if hasattr(thing, "get_state") else thing.bit_generator.state
    if _has_methods(thing):
        return unwrapped(thing).state_dict()
    return [variable.numpy() for variable in _variables(thing) or []]


def _restore(name: str, thing: Any, saved: Any, mesh: Any) -> None:
    state = from_plain(saved)
    if mesh is not None:
        state = with_mesh(state, mesh)
    try:
        _set_state(thing, state)
    except TraindeckError:
        raise
    except Exception as error:
        text, kind = str(error).strip() or type(error).__name__, type(unwrapped(thing)).__name__
        raise TraindeckError(
            f"The checkpoint's {name!r} does not fit the script's {kind}: {text}"
        ) from error


def _set_state(thing: Any, state: Any) -> None:
    if isinstance(thing, dict):
        thing.clear()
        thing.update(state)
    elif isinstance(thing, list):
        thing[:] = state
    elif isinstance(thing, random.Random):
        thing.setstate((state[0], tuple(state[1]), state[2]))
    elif _is_generator(thing):
        if hasattr(thing, "set_state"):
            thing.set_state(state)
        else:
            thing.bit_generator.state = state
    elif _has_methods(thing):
        unwrapped(thing).load_state_dict(state)
    else:
        _assign(_variables(thing) or [], state)


def _assign(variables: list[Any], values: list[Any]) -> None:
    if len(variables) != len(values):
        raise ValueError(
            f"it has {len(variables)} variables, the checkpoint {len(values)}. A Keras model or "
            "optimizer must be built before it is kept: call model.build(...) and "
            "optimizer.build(model.trainable_variables)."
        )
    for variable, value in zip(variables, values):
        variable.assign(value)


def _has_methods(thing: Any) -> bool:
    return all(callable(getattr(thing, name, None)) for name in ("state_dict", "load_state_dict"))


def _is_generator(thing: Any) -> bool:
    """Whether this is a generator of random numbers of NumPy or PyTorch."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(thing, numpy.random.Generator):
        return True
    return torch is not None and isinstance(thing, torch.Generator)


def _variables(thing: Any) -> list[Any] | None:
    """Return the variables of a model, an optimizer or a metric of TensorFlow or Keras."""
    if callable(getattr(thing, "assign", None)) and callable(getattr(thing, "numpy", None)):
        return [thing]
    variables = getattr(thing, "variables", None)
    if callable(variables):  # an optimizer of tf.keras 2
        variables = variables()
    if not isinstance(variables, (list, tuple)):
        return None
    return [v for v in variables if hasattr(v, "assign") and hasattr(v, "numpy")]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"
