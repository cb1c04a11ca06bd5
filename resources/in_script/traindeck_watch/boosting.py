"""XGBoost, LightGBM and CatBoost: each round is a step, and its evaluations are curves."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from traindeck_watch.watch import NoModel, Watch

Evaluation = tuple[str, str, Any]
"""Name of the data, name of the metric, and its value."""

_SET = re.compile(r"(?:[dx]_?)?(train|learn|val|eval|dev|test)[a-z]*(?:[ _](\d+))?", re.IGNORECASE)
_GROUPS = {"train": "train", "learn": "train", "test": "test"}
_PLAN_SECONDS = 1.0
_MOST_ROUNDS = 2000
_CELLS_PER_ROUND = 1000
_UNTOLD = (
    "The rounds of CatBoost are not seen, because {}: it cannot be paused at one, and its curves "
    "come from what it prints."
)

_leads: list[bool] = []
"""Whether the steps are these, and not those of a network that the script has begun to train."""


def leads(watch: Watch) -> bool:
    """Whether a step of these libraries is one of the run: a small model that a script fits beside
    its network, to judge that, makes none."""
    if not _leads:
        _leads.append(not watch.trains)
    return _leads[0]


def is_left_alone(watch: Watch) -> bool:
    """Whether nothing is to be seen now: it is within what is seen already, for example."""
    return watch.is_quiet or watch.calls_are_used or watch.fit_depth > 0


def observed(watch: Watch, original: Any, after: Callable[[Any, Any], Any]) -> Any:
    """The method; it calls `after` with its object and its result. Those within it do not."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_left_alone(watch):
            return original(self, *args, **kwargs)
        watch.fit_depth += 1
        try:
            found = original(self, *args, **kwargs)
        finally:
            watch.fit_depth -= 1
        after(self, found)
        return found

    return call


class Boosting:
    """The rounds of one library."""

    def __init__(self, watch: Watch, library: ModuleType, title: str, ending: str) -> None:
        """`ending`: that of a saved model; empty if it has none before the end of its training."""
        self.watch = watch
        self.title = title
        self.running = 0
        """Functions of the library that train now, and report their rounds."""

        self._ending = ending
        self._model: Callable[[], Any] = lambda: None
        """A weak reference to what trains."""

        self._stops = False
        self._series: dict[str, str] = {}
        self._rounds: int | None = None
        self._plan_due = 0.0
        self._note = watch.guard(self._count, title)
        watch.savers.append(self._saved)
        watch.versions(**{library.__name__: str(getattr(library, "__version__", ""))})

    def ended(self, model: Any, evaluations: Iterable[Evaluation] = ()) -> bool:
        """A round is done. Carries out commands; returns whether the training has to end."""
        if leads(self.watch):
            self._note(model, evaluations)
            self.watch.boundary()
        return self._stops

    def evaluated(self, evaluations: Iterable[Evaluation]) -> None:
        """Record the figures of the last round."""
        for data, metric, value in evaluations if leads(self.watch) else ():
            self.watch.record(self._name(data, metric), value)

    def run(self, train: Callable[[], Any], rounds: Any) -> Any:
        """Call the library's function that trains for so many rounds."""
        watch, before = self.watch, self.watch.graceful_stop
        self._rounds = rounds if type(rounds) is int else None
        self._stops, watch.graceful_stop = False, self._stop
        self.running += 1
        watch.fit_depth += 1
        try:
            return train()
        finally:
            watch.fit_depth -= 1
            self.running -= 1
            watch.graceful_stop = before

    def _stop(self) -> None:
        self._stops = True

    def _count(self, model: Any, evaluations: Iterable[Evaluation]) -> None:
        watch = self.watch
        if self._model() is not model:  # the next training, whose curves go on
            self._model, self._series = weakref.ref(model), {}
        if self._rounds and (now := time.monotonic()) >= self._plan_due:
            watch.plan(total_steps=watch.step + self._rounds)
            self._plan_due, self._rounds = now + _PLAN_SECONDS, None
        watch.count_step()
        self.evaluated(evaluations)

    def _name(self, data: str, metric: str) -> str:
        """The series, named as from a printed line; no two sets of data share one."""
        found = _SET.fullmatch(data)
        series = f"validation/{data}_{metric}"
        if found:
            suffix = f"_{found[2]}" if found[2] and int(found[2]) else ""
            short = f"{_GROUPS.get(found[1].lower(), 'validation')}/{metric}{suffix}"
            if self._series.setdefault(short, data) == data:
                series = short
        return series

    def _saved(self, path: str) -> list[str]:
        model = self._model()
        if model is None:
            return []
        if not self._ending:
            raise NoModel(f"{self.title} has no model until its training ends.")
        self.watch.local.saves = True
        try:
            model.save_model(path + self._ending)
        finally:
            self.watch.local.saves = False
        return [path + self._ending]


def _replace(library: ModuleType, name: str, ours: Callable[[Any], Any]) -> None:
    """Replace a function in all modules of a library that have it by `ours(function)`."""
    original = vars(library).get(name)
    if original is None:
        return
    new = functools.wraps(original)(ours(original))
    for module in [m for n, m in sys.modules.items() if n.split(".")[0] == library.__name__]:
        if vars(module).get(name) is original:
            setattr(module, name, new)


def _patch_method(kind: Any, name: str, ours: Callable[[Any], Any]) -> None:
    original = vars(kind).get(name)
    if original is not None:
        setattr(kind, name, functools.wraps(original)(ours(original)))


def _patch_loop(
    kind: Any,
    boosting: Boosting,
    train: Iterable[str],
    evaluate: Iterable[str],
    read: Callable[[Any], Iterable[Evaluation]],
) -> None:
    """The methods that a loop of the script's own calls; `read` takes what those that evaluate
    return."""
    watch = boosting.watch
    note = watch.guard(lambda model, found: boosting.evaluated(read(found)), boosting.title)
    for name in train:
        _patch_method(
            kind, name, lambda own: observed(watch, own, lambda model, _: boosting.ended(model))
        )
    for name in evaluate:
        _patch_method(kind, name, lambda own: observed(watch, own, note))


def _patch_save(kind: Any, watch: Watch) -> None:
    def ours(original: Any) -> Any:
        def save_model(self: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(self, *args, **kwargs)
            if not getattr(watch.local, "saves", False):
                watch.guard(watch.wrote_file, "a file")(next(iter([*args, *kwargs.values()]), None))
            return found

        return save_model

    _patch_method(kind, "save_model", ours)


# XGBoost


def patch_xgboost(xgboost: ModuleType, watch: Watch) -> None:
    """After `import xgboost`: `train` and `cv`, which its models for scikit-learn call, too."""

    boosting = Boosting(watch, xgboost, "XGBoost", ".ubj")

    def latest(history: dict[str, Any]) -> Iterable[Evaluation]:
        for data, metrics in history.items():
            for metric, values in metrics.items():
                value = values[-1]  # a pair of mean and deviation, of several folds
                yield data, metric, value[0] if isinstance(value, tuple) else value

    def read(line: str) -> Iterable[Evaluation]:
        for part in str(line).split("\t")[1:]:
            name, _, value = part.rpartition(":")
            data, _, metric = name.partition("-")
            yield data, metric, float(value)

    def after_round(original: Any) -> Any:
        def after_iteration(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
            ends = original(self, model, *args, **kwargs)
            return bool(boosting.running and boosting.ended(model, latest(self.history))) or ends

        return after_iteration

    _patch_method(xgboost.callback.CallbackContainer, "after_iteration", after_round)
    for name in ("train", "cv"):
        _replace(xgboost, name, functools.partial(_training, boosting))
    _patch_loop(xgboost.Booster, boosting, ("update", "boost"), ("eval_set",), read)
    _patch_save(xgboost.Booster, watch)


def _training(
    boosting: Boosting, original: Any, adapt: Callable[[dict[str, Any]], None] | None = None
) -> Any:
    """A function that trains for `num_boost_round`; `adapt` changes its arguments."""
    signature = inspect.signature(original)
    adapted = boosting.watch.guard(adapt, boosting.title) if adapt is not None else None

    def train(*args: Any, **kwargs: Any) -> Any:
        if is_left_alone(boosting.watch):
            return original(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:  # the script's error
            return original(*args, **kwargs)
        bound.apply_defaults()
        if adapted is not None:
            adapted(bound.arguments)
        call = functools.partial(original, *bound.args, **bound.kwargs)
        return boosting.run(call, bound.arguments.get("num_boost_round"))

    return train


# LightGBM


def patch_lightgbm(lightgbm: ModuleType, watch: Watch) -> None:
    """After `import lightgbm`: `train` and `cv`, which its models for scikit-learn call, too."""

    boosting = Boosting(watch, lightgbm, "LightGBM", ".txt")
    early = lightgbm.callback.EarlyStopException

    def read(found: Any) -> Iterable[Evaluation]:
        for data, metric, value, *_ in found or ():
            if data == "cv_agg":  # with the name of the data before that of the metric
                data, _, metric = str(metric).rpartition(" ")
            yield data or "valid", metric, value

    def ended(env: Any) -> None:
        found = env.evaluation_result_list
        if boosting.ended(env.model, read(found)):
            raise early(env.iteration, found)

    ended.order = 25  # type: ignore[attr-defined]  # before early stopping leaves the loop

    def adapt(arguments: dict[str, Any]) -> None:
        given = arguments.get("callbacks")
        arguments["callbacks"] = [*(given or ()), ended]

    for name in ("train", "cv"):
        _replace(lightgbm, name, functools.partial(_training, boosting, adapt=adapt))
    evaluate = ("eval", "eval_train", "eval_valid")
    _patch_loop(lightgbm.Booster, boosting, ("update",), evaluate, read)
    _patch_save(lightgbm.Booster, watch)


# CatBoost


def patch_catboost(catboost: ModuleType, watch: Watch) -> None:
    """After `import catboost`: all that calls `fit`."""

    boosting = Boosting(watch, catboost, "CatBoost", "")

    def is_untold(params: dict[str, Any], pool: Any) -> bool:
        try:
            why = _why_untold(params, pool)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if why:
            watch.notice(_UNTOLD.format(why))
        return bool(why)

    class Rounds:
        """The only callback that CatBoost is given: it calls those of the script."""

        def __init__(self, model: Any, given: Any) -> None:
            self._model, self._given = model, given

        def after_iteration(self, info: Any) -> bool:
            goes_on = self._given is None or self._given.after_iteration(info)
            metrics = info.metrics or {}
            found = [(d, m, v[-1]) for d, each in metrics.items() for m, v in each.items() if v]
            return not boosting.ended(self._model, found) and bool(goes_on)

    def ours(original: Any) -> Any:
        def train(self: Any, train: Any, test: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
            if is_left_alone(watch) or is_untold(params, train):
                return original(self, train, test, params, *args, **kwargs)
            changed = dict(params, callbacks=Rounds(self, params.get("callbacks")))
            call = functools.partial(original, self, train, test, changed, *args, **kwargs)
            return boosting.run(call, params.get("iterations", 1000))

        return train

    _patch_method(catboost.core._CatBoostBase, "_train", ours)
    _patch_save(catboost.CatBoost, watch)


def _why_untold(params: dict[str, Any], pool: Any) -> str:
    """Why CatBoost is given no callback; empty: it is. Each call gets the figures of all rounds,
    so that its time grows with them; the time of a round grows with the data."""
    if str(params.get("task_type", "")).upper() == "GPU":
        return "it knows no callbacks on a GPU"
    rounds = params.get("iterations") or 0
    if rounds > _MOST_ROUNDS and rounds > pool.num_row() * pool.num_col() / _CELLS_PER_ROUND:
        return f"for {rounds} rounds on so little data, it would slow it down"
    return ""
