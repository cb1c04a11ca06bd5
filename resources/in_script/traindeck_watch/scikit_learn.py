"""scikit-learn: each `partial_fit` of a model is a step; models that take turns share one."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import weakref
from types import ModuleType
from typing import Any

from traindeck_watch.boosting import leads, observed
from traindeck_watch.names import name_of_object
from traindeck_watch.rounds import Rounds
from traindeck_watch.watch import Watch

_PREPARES = ("sklearn.preprocessing", "sklearn.feature_")
"""Modules whose classes prepare data, also within the `fit` of others."""

_WORDS = ("classifier", "regressor", "estimator", "clf", "model")


def patch_base(base: ModuleType, watch: Watch) -> None:
    """After the module of BaseEstimator: all classes of the library, which are derived from it."""
    kind = base.BaseEstimator
    original = vars(kind).get("__init_subclass__")
    rounds = Rounds()
    models: dict[int, tuple[Any, str]] = {}

    def forget(key: int, reference: Any) -> None:
        models.pop(key, None)
        rounds.leave(key)

    def fitted(model: Any) -> bool:
        """Returns whether a step ended."""
        key = id(model)
        if not leads(watch):
            return False
        if not models:
            watch.versions(**{"scikit-learn": str(sys.modules["sklearn"].__version__)})
        if key not in models:
            name = name_of_object(model, sys._getframe(4), _WORDS) or type(model).__name__
            if any(name == other for _, other in models.values()):
                name = f"{name}_{len(models)}"
            models[key] = weakref.ref(model, functools.partial(forget, key)), name
        if rounds.enter(key):
            watch.count_step()
        if isinstance(loss := getattr(model, "loss_", None), float):
            suffix = f"_{models[key][1]}" if len(models) > 1 else ""
            watch.record(f"train/loss{suffix}", loss)
        return rounds.is_complete

    def save(path: str) -> list[str]:
        """Write all of them, by their names."""
        found = {name: model for ref, name in models.values() if (model := ref()) is not None}
        if not found:
            return []
        final = f"{path}.joblib"
        # The library's own way to save a model; it depends on this package.
        importlib.import_module("joblib").dump(found, f"{final}.part")
        os.replace(f"{final}.part", final)  # noqa: PTH105
        return [final]

    watch.savers.append(save)
    quietly = watch.guard(fitted, "scikit-learn's partial_fit")

    def after(model: Any, result: Any) -> None:
        if quietly(model):
            watch.boundary()

    def replace(derived: Any) -> None:
        own, module = vars(derived).get("partial_fit"), derived.__module__
        if own is None or module.startswith(_PREPARES) or not module.startswith("sklearn."):
            return
        if hasattr(own, "fn"):  # a method that is there only under a condition
            own.fn = observed(watch, own.fn, after)
        else:
            derived.partial_fit = observed(watch, own, after)

    replace = watch.guard(replace, "scikit-learn's partial_fit")

    def init_subclass(derived: Any, /, **kwargs: Any) -> None:
        if original is None:
            super(kind, derived).__init_subclass__(**kwargs)
        else:
            original.__func__(derived, **kwargs)
        replace(derived)

    kind.__init_subclass__ = classmethod(init_subclass)
