"""What scripts give to their own loggers: TensorBoard, tf.summary, trackio, mlflow and aim.

Each call goes on to the logger as before. A series keeps the name and the step that it was given.
"""

from __future__ import annotations

import functools
import math
import numbers
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from traindeck_watch.loggers import media
from traindeck_watch.recorder import as_number
from traindeck_watch.watch import Watch, nested

_TAKEN = (
    "train/loss",
    "train/learning_rate",
    "train/samples_per_second",
    "train/step_seconds",
)
_FRAMEWORKS = ("torch", "keras", "tf_keras", "tensorflow")


def _own_name(name: str) -> str:
    """The name of a series, apart from those that our hooks give to what they see in every step.

    Many scripts log a mean over many batches as `train/loss`: one curve must not hold both.
    """
    is_taken = name in _TAKEN and any(framework in sys.modules for framework in _FRAMEWORKS)
    return f"logged/{name}" if is_taken else name


_PICTURES = ("Image", "TrackioImage")


def keep(watch: Watch, name: Any, value: Any, step: Any = None, caption: str = "") -> None:
    """Keep whatever a script has logged: a number, a picture, a histogram, or a dict of these.

    An error is told; what is logged with it is kept.
    """
    try:
        name = _own_name(str(name))
        _keep(watch, name, value, step_of(watch, step, name), caption)
    except Exception as error:
        watch.tell_error(error, f"what is logged as {name!r}")


def _keep(watch: Watch, name: str, value: Any, at: int, caption: str) -> None:
    if isinstance(value, (bool, int, float, numbers.Number)):
        watch.record(name, float(value), at)  # type: ignore[arg-type]
    elif isinstance(value, Mapping):
        for key, part in value.items():
            keep(watch, f"{name}/{key}", part, at)
    elif isinstance(value, (list, tuple)):
        for part in list(value)[:16]:
            if _kind(part) in _PICTURES:
                keep(watch, name, part, at)
    elif _kind(value) in _PICTURES:
        _keep_picture(watch, name, value, at, caption)
    elif _kind(value) in ("Histogram", "Distribution"):
        _keep_histogram(watch, name, value, at)
    elif hasattr(value, "savefig"):
        media.image(watch, name, at, value)
    elif hasattr(value, "dtype") and getattr(value, "shape", None) is not None:
        _keep_array(watch, name, value, at)


_calls: dict[str, int] = {}
"""Series or loggers -> their next step, where nothing counts steps."""


def next_call(key: str) -> int:
    """The number of this call, from 0."""
    number = _calls[key] = _calls.get(key, -1) + 1
    return number


def step_of(watch: Watch, step: Any, key: str) -> int:
    """The step that the script gave, or that of the training; without one, the number of the call
    for this series. So is one that has shown fractions: no two points may become one."""
    number = None if step is None else as_number(step)
    if number is None:
        return watch.present_step if watch.sees_steps else next_call(key)
    if not math.isfinite(number) or number != int(number) or key in _fractional:
        _fractional.add(key)
        return next_call(key)
    whole = _calls[key] = step if isinstance(step, int) else int(number)
    return whole


_fractional: set[str] = set()
"""Series, or metrics that are steps, with values that are no whole numbers."""


def _kind(value: Any) -> str:
    return type(value).__name__


def _keep_array(watch: Watch, name: str, value: Any, at: int) -> None:
    count = 1
    for side in value.shape:
        count *= int(side)
    if count != 1:
        return
    hooks = vars(sys.modules.get("torch", object)).get("_traindeck_hooks")
    if hasattr(value, "detach") and hooks is not None:
        copy = hooks.copy_of(value)
        if copy is not None:
            watch.record(name, copy, at)
        return
    number = as_number(value.reshape(()) if hasattr(value, "reshape") else value)
    if number is not None:
        watch.record(name, number, at)


def _keep_picture(watch: Watch, name: str, value: Any, at: int, caption: str) -> None:
    """An `Image` of wandb, trackio or aim, one of a double of these, or PIL's own."""
    text = str(caption or getattr(value, "_caption", None) or getattr(value, "caption", None) or "")
    to_pil = getattr(value, "to_pil_image", None) or getattr(value, "_as_pil", None)
    if to_pil is not None:
        picture = to_pil()
    elif hasattr(value, "save") and hasattr(value, "mode"):
        picture = value
    else:
        picture = getattr(value, "image", None)
        if picture is None:
            picture = getattr(value, "_image", None)
    if picture is None:
        picture = getattr(value, "_path", None) or getattr(value, "_value", None)
    if picture is not None:
        media.image(watch, name, at, picture, caption=text)


def _keep_histogram(watch: Watch, name: str, value: Any, at: int) -> None:
    edges = getattr(value, "bins", None)
    counts = getattr(value, "histogram", None)
    if edges is None and hasattr(value, "weights"):
        counts = list(value.weights)
        low, high = value.range
        width = (high - low) / max(1, len(counts))
        edges = [low + place * width for place in range(len(counts) + 1)]
    if edges is not None and counts is not None:
        media.ready_histogram(watch, name, at, list(edges), list(counts))


def tap(watch: Watch, owner: Any, name: str, note: Callable[..., None], library: str) -> None:
    """Call `note` with the arguments of each call of `owner.name`, and then the original."""
    original = vars(owner).get(name)
    if original is None or hasattr(original, "_traindeck_original"):
        return
    quietly = watch.guard(note, library)

    @functools.wraps(original)
    def tapped(*args: Any, **kwargs: Any) -> Any:
        if watch.is_quiet:
            return original(*args, **kwargs)
        quietly(*args, **kwargs)
        with nested(watch):
            return original(*args, **kwargs)

    tapped._traindeck_original = original  # type: ignore[attr-defined]
    setattr(owner, name, tapped)


# TensorBoard


def patch_tensorboard(module: ModuleType, watch: Watch) -> None:
    """After torch's or tensorboardX's module of SummaryWriter."""

    def scalar(
        self: Any, tag: Any, scalar_value: Any, global_step: Any = None, *_: Any, **__: Any
    ) -> None:
        keep(watch, tag, scalar_value, global_step)

    def scalars(
        self: Any, main_tag: Any, tag_scalar_dict: Any, global_step: Any = None, *_: Any, **__: Any
    ) -> None:
        for tag, value in tag_scalar_dict.items():
            keep(watch, f"{main_tag}/{tag}", value, global_step)

    def image(
        self: Any, tag: Any, img_tensor: Any, global_step: Any = None, walltime: Any = None,
        dataformats: str = "CHW", **_: Any,
    ) -> None:  # fmt: skip
        media.image(
            watch, str(tag), step_of(watch, global_step, str(tag)), img_tensor, layout=dataformats
        )

    def images(
        self: Any, tag: Any, img_tensor: Any, global_step: Any = None, walltime: Any = None,
        dataformats: str = "NCHW", **_: Any,
    ) -> None:  # fmt: skip
        media.image(
            watch, str(tag), step_of(watch, global_step, str(tag)), img_tensor, layout=dataformats
        )

    def figure(
        self: Any, tag: Any, figure: Any, global_step: Any = None, *_: Any, **__: Any
    ) -> None:
        for one in figure if isinstance(figure, list) else [figure]:
            media.image(watch, str(tag), step_of(watch, global_step, str(tag)), one)

    def histogram(
        self: Any, tag: Any, values: Any, global_step: Any = None, *_: Any, **__: Any
    ) -> None:
        media.histogram(watch, str(tag), step_of(watch, global_step, str(tag)), values)

    writer = module.SummaryWriter
    taps = {
        "add_scalar": scalar,
        "add_scalars": scalars,
        "add_image": image,
        "add_images": images,
        "add_figure": figure,
        "add_histogram": histogram,
    }
    for name, note in taps.items():
        tap(watch, writer, name, note, "SummaryWriter")


def _eager(watch: Watch, data: Any) -> Any:
    """The value of a tensor of TensorFlow; None inside of a graph that is only being built."""
    read = getattr(data, "numpy", None)
    if read is None:
        if type(data).__name__ in ("SymbolicTensor", "KerasTensor"):
            watch.notice("Figures that tf.summary gets inside of a tf.function cannot be read.")
            return None
        return data
    return read()


def _tf_step(watch: Watch, step: Any, name: Any) -> int:
    if step is None:
        tensorflow = sys.modules.get("tensorflow")
        try:
            step = tensorflow.summary.experimental.get_step() if tensorflow else None
        except Exception:
            step = None
    read = getattr(step, "numpy", None)
    return step_of(watch, read() if read is not None else step, str(name))


def _from_keras(watch: Watch, name: Any) -> bool:
    """Whether Keras' own TensorBoard callback writes what the callback of ours has got already."""
    return watch.fit_depth > 0 and str(name).startswith(("epoch_", "batch_", "evaluation_"))


def patch_tf_scalar(module: ModuleType, watch: Watch) -> None:
    """After the module of `tf.summary.scalar`."""

    def note(name: Any, data: Any, step: Any = None, *_: Any, **__: Any) -> None:
        if not _from_keras(watch, name):
            value = _eager(watch, data)
            if value is not None:
                keep(watch, name, value, _tf_step(watch, step, name))

    tap(watch, module, "scalar", note, "tf.summary")


def patch_tf_image(module: ModuleType, watch: Watch) -> None:
    """After the module of `tf.summary.image`."""

    def note(
        name: Any, data: Any, step: Any = None, max_outputs: Any = 3, *_: Any, **__: Any
    ) -> None:
        value = _eager(watch, data)
        if value is not None:
            shown = value[: int(max_outputs)]
            media.image(watch, str(name), _tf_step(watch, step, name), shown, layout="NHWC")

    tap(watch, module, "image", note, "tf.summary")


def patch_tf_histogram(module: ModuleType, watch: Watch) -> None:
    """After the module of `tf.summary.histogram`."""

    def note(name: Any, data: Any, step: Any = None, *_: Any, **__: Any) -> None:
        value = _eager(watch, data)
        if value is not None:
            media.histogram(watch, str(name), _tf_step(watch, step, name), value)

    tap(watch, module, "histogram", note, "tf.summary")


# other loggers


def patch_trackio(module: ModuleType, watch: Watch) -> None:
    """After the module of trackio's Run."""

    def note(self: Any, metrics: Any, step: Any = None, *_: Any, **__: Any) -> None:
        at = step_of(watch, step, "trackio.log")
        for name, value in metrics.items():
            keep(watch, name, value, at)

    tap(watch, module.Run, "log", note, "trackio")


def patch_stable_baselines(module: ModuleType, watch: Watch) -> None:
    """After the module of Stable-Baselines3's Logger, which names rewards and its own steps."""

    def dump(self: Any, step: Any = 0, *_: Any, **__: Any) -> None:
        if any(type(each).__name__ == "TensorBoardOutputFormat" for each in self.output_formats):
            return  # its SummaryWriter gets the same figures
        for name, value in self.name_to_value.items():
            if isinstance(value, numbers.Number) and not str(name).startswith("time/"):
                keep(watch, name, value, step)

    tap(watch, module.Logger, "dump", dump, "stable_baselines3")


def patch_mlflow(module: ModuleType, watch: Watch) -> None:
    """After the module of mlflow's functions."""

    def metric(key: Any, value: Any, step: Any = None, *_: Any, **__: Any) -> None:
        keep(watch, key, value, step)

    def several(metrics: Any, step: Any = None, *_: Any, **__: Any) -> None:
        for name, value in metrics.items():
            keep(watch, name, value, step)

    def image(
        image: Any, artifact_file: Any = None, key: Any = None, step: Any = None, *_: Any, **__: Any
    ) -> None:
        series = str(key or artifact_file)
        media.image(watch, series, step_of(watch, step, series), image)

    def figure(figure: Any, artifact_file: Any, *_: Any, **__: Any) -> None:
        if hasattr(figure, "savefig"):
            media.image(watch, str(artifact_file), watch.present_step, figure)

    taps: dict[str, Callable[..., None]] = {
        "log_metric": metric,
        "log_metrics": several,
        "log_image": image,
        "log_figure": figure,
    }
    for name, note in taps.items():
        tap(watch, module, name, note, "mlflow")


def patch_mlflow_client(module: ModuleType, watch: Watch) -> None:
    """After the module of mlflow's client, which loggers of other libraries use."""

    def metric(
        self: Any, run_id: Any, key: Any, value: Any, timestamp: Any = None, step: Any = None,
        *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        keep(watch, key, value, step)

    def batch(self: Any, run_id: Any, metrics: Any = (), *_: Any, **__: Any) -> None:
        for each in metrics:
            keep(watch, each.key, each.value, each.step)

    tap(watch, module.MlflowClient, "log_metric", metric, "mlflow")
    tap(watch, module.MlflowClient, "log_batch", batch, "mlflow")


def patch_aim(module: ModuleType, watch: Watch) -> None:
    """After the module of aim's Run."""

    def note(
        self: Any, value: Any, name: str | None = None, step: Any = None, epoch: Any = None,
        *, context: Any = None, **_: Any,
    ) -> None:  # fmt: skip
        subset = context.get("subset") if isinstance(context, Mapping) else None
        prefix = f"{subset}/" if subset and name else ""
        if name is None and isinstance(value, Mapping):
            for key, part in value.items():
                keep(watch, key, part, step)
        elif name is not None:
            keep(watch, f"{prefix}{name}", value, step)

    owner = next(kind for kind in module.Run.__mro__ if "track" in vars(kind))
    tap(watch, owner, "track", note, "aim")
