"""What scripts give to wandb, where it is installed. Nothing leaves the machine unless the user has
an account there, or says so in WANDB_MODE; wandb never asks for one."""

from __future__ import annotations

import functools
import netrc
import os
from types import ModuleType
from typing import Any

from traindeck_watch.loggers.hooks import keep, step_of, tap
from traindeck_watch.watch import Watch

_MODE = "WANDB_MODE"


def _is_turned_on() -> bool:
    """Whether the user has chosen what wandb does: by a mode, a key, or being logged in."""
    if os.environ.get(_MODE) or os.environ.get("WANDB_API_KEY"):
        return True
    if os.environ.get("WANDB_DISABLED") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").split("//")[-1].split("/")[0]
    for name in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        path = os.path.expanduser(name) if name else ""  # noqa: PTH111
        if path and os.path.exists(path):  # noqa: PTH110
            try:
                if netrc.netrc(path).authenticators(host.split(":")[0]):
                    return True
            except (OSError, netrc.NetrcParseError):
                continue
    return False


def patch_wandb(module: ModuleType, watch: Watch) -> None:
    """After `import wandb`."""
    if not _is_turned_on():
        os.environ[_MODE] = "offline"
        if not os.environ.get("WANDB_DIR") and os.environ.get("TRAINDECK_RUN_FOLDER"):
            os.environ["WANDB_DIR"] = os.environ["TRAINDECK_RUN_FOLDER"]
        watch.notice(
            "There is no login to wandb, so what it gets stays on this machine. "
            "Set WANDB_MODE or log in to send it."
        )
        _keep_off(module, watch)
    original = module.init

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        run = original(*args, **kwargs)
        watch.guard(_tap_disabled, "wandb")(module, run, watch)
        return run

    module.init = init  # type: ignore[attr-defined]


def _keep_off(module: ModuleType, watch: Watch) -> None:
    """`init(mode="online")` and `login()` would ask for an account."""
    original = module.init

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("mode") in ("online", "shared") and not _is_logged_in_meanwhile():
            kwargs["mode"] = "offline"
        return original(*args, **kwargs)

    module.init = init  # type: ignore[attr-defined]
    login_original = module.login

    @functools.wraps(login_original)
    def login(*args: Any, **kwargs: Any) -> Any:
        key = kwargs.get("key") or (args[1] if len(args) > 1 else None)
        if key is None and not _is_logged_in_meanwhile():
            return True
        os.environ.pop(_MODE, None)  # the script itself brings a key
        return login_original(*args, **kwargs)

    module.login = login  # type: ignore[attr-defined]


def _is_logged_in_meanwhile() -> bool:
    return bool(os.environ.get("WANDB_API_KEY"))


def _tap_disabled(module: ModuleType, run: Any, watch: Watch) -> None:
    """A run of the mode `disabled` has a `log` of its own, which does nothing."""
    log = vars(run).get("log")
    if log is None:
        return

    def tapped(data: Any = None, step: int | None = None, *args: Any, **kwargs: Any) -> Any:
        watch.guard(_log, "wandb")(watch, data, step, *args, **kwargs)
        return log(data, step, *args, **kwargs)

    run.log = tapped
    if getattr(module, "log", None) is log:
        module.log = tapped  # type: ignore[attr-defined]


_step_metrics: dict[str, str] = {}
"""Series (or the beginning of its name and `*`) -> the series that is its step."""


def define_metric(name: Any, step_metric: Any) -> None:
    """The script says that a series has its own steps."""
    step_name = getattr(step_metric, "name", step_metric)
    if step_name:
        _step_metrics[str(name)] = str(step_name)


def _step_metric(name: str, data: Any) -> str:
    """The metric whose value in `data` is the step of a series; empty: none."""
    found = _step_metrics.get(name)
    if found is None:
        fitting = [p for p in _step_metrics if p.endswith("*") and name.startswith(p[:-1])]
        found = _step_metrics[max(fitting, key=len)] if fitting else None
    return found if found is not None and found != name and found in data else ""


_open_step: list[int] = []
"""The step of `log(..., commit=False)`, to which the next call belongs too."""


def keep_all(watch: Watch, data: Any, step: Any, commit: Any = None) -> None:
    """Keep everything of one `wandb.log`. Each call without a step is the next one there."""
    if not isinstance(data, dict):
        return
    at = _open_step[0] if step is None and _open_step else step_of(watch, step, "wandb.log")
    _open_step.clear()
    if commit is False:
        _open_step.append(at)
    by_metric: dict[str, int] = {}
    for name, value in list(data.items()):
        metric = _step_metric(str(name), data)
        if metric and metric not in by_metric:
            by_metric[metric] = step_of(watch, data[metric], f"step {metric}")
        keep(watch, name, value, by_metric.get(metric, at))


def _log(watch: Watch, data: Any, step: Any = None, commit: Any = None, *_: Any, **__: Any) -> None:
    keep_all(watch, data, step, commit)


def patch_run(module: ModuleType, watch: Watch) -> None:
    """After the module of wandb's Run."""

    def log(self: Any, data: Any, step: Any = None, commit: Any = None, *_: Any, **__: Any) -> None:
        keep_all(watch, data, step, commit)

    def define(self: Any, name: Any, step_metric: Any = None, *_: Any, **__: Any) -> None:
        define_metric(name, step_metric)

    tap(watch, module.Run, "log", log, "wandb")
    tap(watch, module.Run, "define_metric", define, "wandb")


def patch_summary(module: ModuleType, watch: Watch) -> None:
    """After the module of a run's summary: figures that a script sets there itself."""

    def note(self: Any, key: Any, value: Any) -> None:
        if type(self).__name__ == "Summary" and not str(key).startswith("_"):
            keep(watch, f"summary/{key}", value)

    tap(watch, module.SummaryDict, "__setitem__", note, "wandb")
