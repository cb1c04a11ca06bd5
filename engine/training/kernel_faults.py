"""Failed kernels of a GPU: Python hears of them later, and the line where it does is not theirs."""

from __future__ import annotations

import os

from engine.training.errors import TrainingFailed

LAUNCH_BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""The environment variable of CUDA with which Python waits for each kernel, so that a failed one is
known in its line."""

_INDEX = (
    "it was given an index out of range, most often a label that is not below the number of the "
    "model's outputs, or a token that is not below the size of the vocabulary"
)
_ADDRESS = (
    "it used an address that is not its own: an index out of range, or an error in a kernel of the "
    "recipe or of a library"
)
_CAUSES = {
    "device-side assert triggered": _INDEX,
    "illegal memory access": _ADDRESS,
    "misaligned address": _ADDRESS,
    "unspecified launch failure": _ADDRESS,
}


class KernelFault(TrainingFailed):
    """A kernel has failed, and no call of this process reaches the GPU any more."""


def is_blocking() -> bool:
    """Whether this process waits, or lets its workers wait, for each kernel."""
    return os.environ.get(LAUNCH_BLOCKING) == "1"


def kernel_fault(error: Exception, known: int, issued: int) -> KernelFault | None:
    """Return what to say if `error` tells of a failed kernel; None: it does not.

    The values up to step `known` have been read, and steps up to `issued` were begun. A library
    that meets the failure of another kernel has words of its own: a note of `error` then has those
    of the GPU.
    """
    notes = getattr(error, "__notes__", ())
    found = (
        (text, cause)
        for text in (str(error), *notes)
        for words, cause in _CAUSES.items()
        if words in text
    )
    text, cause = next(found, ("", ""))
    if not cause:
        return None
    where = f"after step {known}"
    if issued > known:
        where = f"in step {issued}" if issued == known + 1 else f"in steps {known + 1} to {issued}"
    fault = KernelFault(f"A kernel failed on the GPU {where}: {cause}. {_advice(text)}")
    if is_blocking():
        fault.__cause__ = error
    else:  # its line and its batch are those of a later wait for the GPU
        fault.__suppress_context__ = True
    for note in dict.fromkeys((text, *(notes if is_blocking() else ()))):
        fault.add_note(note)
    return fault


def _advice(text: str) -> str:
    said = text.partition("\n")[0]
    if is_blocking():
        return f"Each kernel was waited for, so the line is the right one ({said})."
    return (
        f"The GPU computes behind Python, so the line is not known: set {LAUNCH_BLOCKING}=1 and "
        f"train again, or compute the batches on a CPU ({said})."
    )
