"""Watches the outputs of Keras layers, on any backend: past the hooks of the frameworks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

NoteOutputs = Callable[[str, Any, Any, Any], None]
"""Takes the name of a layer, the layer, its inputs and its outputs."""


def watch_layer(layer: Any, note: NoteOutputs) -> Callable[[], object]:
    """Call `note` after each call of a layer; return a function that ends this."""
    call = layer.call

    @functools.wraps(call)
    def noted(*inputs: Any, **options: Any) -> Any:
        outputs = call(*inputs, **options)
        note(layer.path or layer.name, layer, inputs, outputs)
        return outputs

    # Past the class, which tracks what is set in the usual way.
    object.__setattr__(layer, "call", noted)
    return lambda: object.__delattr__(layer, "call")
