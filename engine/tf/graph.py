"""Makes graphs: from the engine's functions without AutoGraph, from the recipe's with it.

AutoGraph rewrites a function's source so that `if` and `for` may depend on a tensor's value. The
functions of this package use `tf.cond` and `tf.while_loop` instead: rewriting them would take most
of the time between the import of TensorFlow and the first step.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.pyct import loader

HOST = "CPU:0"
"""Where indices and other small whole numbers are computed: a GPU would be waited for."""


def keep_generated_code_in_memory() -> None:
    """Have AutoGraph leave no file in the folder for temporary files.

    It writes the code that it generates to a file, imports that, and deletes it when Python exits;
    workers leave without that, and some are killed. Tracebacks and `inspect` find the lines here.
    """
    write_and_import = loader.load_source

    def load_source(source: str, delete_on_exit: bool) -> Any:
        writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            module, name = write_and_import(source, False)
        finally:
            sys.dont_write_bytecode = writes_bytecode
        Path(name).unlink(missing_ok=True)
        lines = [line + "\n" for line in source.splitlines()]
        linecache.cache[name] = (len(source), None, lines, name)
        return module, name

    if not hasattr(write_and_import, "keeps_in_memory"):
        load_source.keeps_in_memory = True  # type: ignore[attr-defined]
        loader.load_source = load_source


def graph(function: Callable[..., Any], **options: Any) -> Any:
    """Return the `tf.function` of one of the engine's functions, without AutoGraph."""
    return tf.function(function, autograph=False, **options)


def with_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the recipe, rewritten by AutoGraph in the same way as `tf.function`."""
    autograph = tf.__internal__.autograph  # the interface that Keras 2 used for its layers
    converted: Callable[..., Any] = autograph.tf_convert(function, autograph.control_status_ctx())
    return converted
