"""Stands in for a logger that the script imports and that is not installed: what it logs is kept.

Only for an import that would end the script: one in the user's own code, without an `except` for
it. A library, or a script, that asks whether the logger is there, is told the truth.
"""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from importlib.abc import Loader
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from traindeck_watch.libraries import is_library
from traindeck_watch.loggers.hooks import keep
from traindeck_watch.loggers.wandb_logger import define_metric, keep_all

if TYPE_CHECKING:
    from traindeck_watch.watch import Watch

_CAUGHT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def spec_of(name: str, watch: Watch) -> importlib.machinery.ModuleSpec | None:
    """The double's spec, or None where the import may fail as it would without us."""
    frame = _importer()
    if frame is None or is_library(frame.f_code.co_filename) or _expects_failure(frame):
        return None
    watch.notice(f"{name} is not installed. What the script gives to it is kept here.")
    return importlib.machinery.ModuleSpec(name, _DoubleLoader(watch), is_package=True)


def _importer() -> FrameType | None:
    """The frame with the import statement; None for a question by `importlib.util.find_spec`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" in file or file.startswith("<frozen"):
            if frame.f_code.co_name == "find_spec" and file.endswith("util.py"):
                return None
            if "importlib.util" in file and frame.f_code.co_name == "find_spec":
                return None
        elif "traindeck_watch" not in file:
            return frame
        frame = frame.f_back
    return None


def _expects_failure(frame: FrameType) -> bool:
    """Whether the statement stands in a `try` that catches a failed import."""
    try:
        with open(frame.f_code.co_filename, "rb") as file:  # noqa: PTH123
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try) or not node.handlers:
            continue
        first, last = node.body[0].lineno, node.body[-1].end_lineno or 0
        if first <= frame.f_lineno <= last and any(map(_catches, node.handlers)):
            return True
    return False


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _CAUGHT for kind in kinds)


class _DoubleLoader(Loader):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Double(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []
        _fill(module, self._watch)


class _Anything:
    """Accepts every use and does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # As a decorator it leaves the function as it is.
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __getitem__(self, key: Any) -> Any:
        return _Anything()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return ""


class _Double(ModuleType):
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Settings(dict[str, Any]):
    """A configuration or summary: its keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *args: Any, allow_val_change: bool = False, **kwargs: Any) -> None:
        for each in (*args, kwargs):
            found = each if isinstance(each, dict) else getattr(each, "__dict__", {})
            for key, value in dict(found).items():
                self[key] = value

    def setdefaults(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            self.setdefault(key, value)


class _Summary(_Settings):
    """A summary: what the script sets itself is kept."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        object.__setattr__(self, "_watch", watch)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        keep(object.__getattribute__(self, "_watch"), f"summary/{key}", value)


class Image:
    """A picture with its caption."""

    def __init__(
        self, data_or_path: Any = None, mode: Any = None, caption: Any = None, *_: Any, **__: Any
    ) -> None:
        self.data = data_or_path
        self.image = data_or_path
        self.caption = caption


class Histogram:
    """Values, counted into bins at once as wandb does."""

    def __init__(
        self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64, *_: Any, **__: Any
    ) -> None:
        from traindeck_watch.loggers.media import as_histogram

        if np_histogram is not None:
            self.histogram, self.bins = list(np_histogram[0]), list(np_histogram[1])
        else:
            self.bins, self.histogram = as_histogram(sequence)


def _fill(module: ModuleType, watch: Watch) -> None:
    class Run(_Anything):
        id = name = "local"
        project = entity = group = url = ""
        dir = "."
        mode = "disabled"
        offline = disabled = True
        resumed = False
        step = 0

        def __init__(self, config: Any = None) -> None:
            self.config = _Settings()
            if config is not None:
                self.config.update(config)
            self.summary = _Summary(watch)

        def __bool__(self) -> bool:
            return True

        def log(self, data: Any, step: Any = None, commit: Any = None, *_: Any, **__: Any) -> None:
            watch.guard(keep_all, "wandb")(watch, data, step, commit)
            self.step = self.step + 1 if step is None else int(step)

        def define_metric(self, name: Any, step_metric: Any = None, *_: Any, **__: Any) -> Any:
            define_metric(name, step_metric)
            return _Anything()

        def finish(self, *_: Any, **__: Any) -> None:
            bind(None)

    space = vars(module)

    def bind(run: Any) -> None:
        space["run"] = run
        space["config"] = run.config if run is not None else _Settings()
        space["summary"] = run.summary if run is not None else _Settings()

    def init(*_: Any, config: Any = None, **__: Any) -> Any:
        bind(Run(config))
        return space["run"]

    def started() -> Any:
        if space["run"] is None:
            raise RuntimeError("You must call wandb.init() before wandb.log()")
        return space["run"]

    def agent(*_: Any, **__: Any) -> None:
        raise RuntimeError("wandb is not installed, so it cannot run a sweep.")

    bind(None)
    space.update(
        __version__="0.0.0",
        Run=Run,
        Image=Image,
        Histogram=Histogram,
        Settings=_Anything,
        init=init,
        login=lambda *_, **__: True,
        log=lambda *args, **kwargs: started().log(*args, **kwargs),
        define_metric=lambda *args, **kwargs: started().define_metric(*args, **kwargs),
        finish=lambda *_, **__: bind(None),
        agent=agent,
        sweep=agent,
    )
