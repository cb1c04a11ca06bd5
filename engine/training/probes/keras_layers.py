"""Watches the outputs of Keras layers, on any backend: past the hooks of the frameworks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from engine.training.probes.step_inspection import plain_settings

NoteOutputs = Callable[[str, Any, Any, Any], None]
"""Takes the name of a layer, the layer, its inputs and its outputs."""


def watch_layers(model: Any, note: NoteOutputs) -> list[Callable[[], object]]:
    """Call `note` after each call of a layer; return functions that end this."""
    return [_watch(each, model, note) for each in model._flatten_layers()]


def _watch(layer: Any, model: Any, note: NoteOutputs) -> Callable[[], object]:
    name = "" if layer is model else layer.path or layer.name
    call = layer.call

    @functools.wraps(call)
    def noted(*inputs: Any, **options: Any) -> Any:
        outputs = call(*inputs, **options)
        note(name, layer, inputs, outputs)
        return outputs

    # Past the class, which tracks what is set in the usual way.
    object.__setattr__(layer, "call", noted)
    return lambda: object.__delattr__(layer, "call")


def settings_of(layer: Any) -> str:
    """Return what a layer, also of PyTorch, was made with; empty: it cannot say."""
    try:
        if not hasattr(layer, "get_config"):
            return str(layer.extra_repr())
        found = layer.get_config()
    except Exception:  # a layer of the user, which needs none to train
        return ""
    left_out = ("name", "trainable", "dtype", "batch_shape", "layers", "data_format")
    return plain_settings({k: v for k, v in found.items() if k not in left_out})
