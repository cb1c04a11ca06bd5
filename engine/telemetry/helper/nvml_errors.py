"""What NVML's errors mean: a GPU that is gone, a value that is missing, or no driver at all."""

from __future__ import annotations

import pynvml

GONE = (
    pynvml.NVMLError_GpuIsLost,
    pynvml.NVMLError_ResetRequired,
    pynvml.NVMLError_GpuNotFound,
    pynvml.NVMLError_InvalidArgument,  # the driver no longer knows the handle
    pynvml.NVMLError_Uninitialized,
    pynvml.NVMLError_DriverNotLoaded,
)
"""After one of these the handle must never be used again: old drivers crash on it."""

GONE_FOR_SURE = tuple(error for error in GONE if error is not pynvml.NVMLError_InvalidArgument)
"""Where a question has arguments besides the handle, the driver may mean one of those."""

UNSAID = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_NoData,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_ArgumentVersionMismatch,
    pynvml.NVMLLibraryMismatchError,  # not an NVMLError, unlike all the others
)
"""Ordinary ways of a driver to say that it does not have a value."""


class NoValue(Exception):
    """There is no value, and the message says why: something that NVML does not say by an error."""


def reason(error: Exception) -> str:
    """Why a field has no value, in a few words."""
    match error:
        case pynvml.NVMLError_NotSupported():
            return "not supported"
        case pynvml.NVMLError_NoPermission():
            return "no permission"
        case pynvml.NVMLError_NoData():
            return "no data yet"
        case (
            pynvml.NVMLError_FunctionNotFound()
            | pynvml.NVMLError_ArgumentVersionMismatch()
            | pynvml.NVMLLibraryMismatchError()
        ):
            return "not supported by this version of the driver"
        case _:
            return str(error)


def why_no_driver(error: pynvml.NVMLError) -> str:
    """Why no GPU can be asked for, in a sentence."""
    match error:
        case pynvml.NVMLError_LibraryNotFound():
            return "No NVIDIA driver is installed (its library NVML was not found)."
        case pynvml.NVMLError_DriverNotLoaded():
            return "The NVIDIA driver is installed, but it is not loaded."
        case pynvml.NVMLError_LibRmVersionMismatch():
            return "The NVIDIA driver was replaced while it was in use: restart the machine."
        case pynvml.NVMLError_NoPermission():
            return "The NVIDIA driver does not let this user ask for its GPUs."
        case _:
            return f"The NVIDIA driver does not answer: {error}."
