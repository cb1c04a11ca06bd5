"""The things that a checkpoint holds: how each one's state is read and restored."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Any

from traindeck._errors import TraindeckError
from traindeck._state.plain import from_plain, to_plain


class Kept:
    """What the script keeps, by name, in the order in which it was named."""

    def __init__(self) -> None:
        self.things: dict[str, Any] = {}
        self._saved: dict[str, Any] | None = None

    def __bool__(self) -> bool:
        return bool(self.things)

    def is_kept(self, thing: Any) -> bool:
        """Whether the state of `thing` is in the checkpoints."""
        return any(unwrapped(thing) is unwrapped(kept) for kept in self.things.values())

    def add(self, things: dict[str, Any]) -> None:
        """Keep `things`; restore them at once if the run resumes. Raises TraindeckError."""
        for name, thing in things.items():
            if not has_state(thing):
                raise TraindeckError(
                    f"keep({name}=...) needs an object with state_dict() and load_state_dict(), a "
                    f"dict, a list, or variables of TensorFlow, not a {type(thing).__name__}."
                )
            if self.things.get(name, thing) is not thing:
                raise TraindeckError(f"keep({name}=...): another thing has the name {name!r}.")
            self.things[name] = thing
            if self._saved is not None:
                _restore(name, thing, self._saved)

    def replace(self, things: dict[str, Any]) -> None:
        """Keep `things` instead of others of these names; nothing is restored yet."""
        self.things.update(things)

    def states(self) -> dict[str, Any]:
        """Return the plain states. Raises TraindeckError for what a checkpoint cannot hold."""
        return {
            name: to_plain(state_of(thing), f"keep({name}=...)")
            for name, thing in self.things.items()
        }

    def resume_from(self, saved: dict[str, Any] | None) -> None:
        """Restore from these plain states whatever is kept from now on; None: nothing."""
        self._saved = saved

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore everything from plain states. Raises TraindeckError if the names differ."""
        if missing := saved.keys() - self.things.keys():
            raise TraindeckError(
                f"The checkpoint has {_listed(missing)}, which the script has not kept before its "
                "loop. Resume with the script that has saved it, or begin a new run."
            )
        for name, thing in self.things.items():
            _restore(name, thing, saved)


def has_state(thing: Any) -> bool:
    """Whether the state of `thing` can be read and restored."""
    if isinstance(thing, (dict, list, random.Random)) or _has_methods(thing):
        return True
    return _is_generator(thing) or _variables(thing) is not None


def unwrapped(thing: Any) -> Any:
    """Return a model itself, without what a wrapper or a compiler has put around it."""
    if "torch" not in sys.modules:
        return thing
    from traindeck import _torch

    return _torch.unwrapped(thing)


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


def _restore(name: str, thing: Any, saved: dict[str, Any]) -> None:
    if name not in saved:
        raise TraindeckError(
            f"The checkpoint has no {name!r}; it has {_listed(saved)}. Resume with the script "
            "that has saved it, or begin a new run."
        )
    try:
        _set_state(thing, from_plain(saved[name]))
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
