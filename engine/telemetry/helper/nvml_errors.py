"""Classifies NVML's errors: a lost GPU, a missing value, or no driver."""

from __future__ import annotations

import pynvml

LOST_ERRORS = (
    pynvml.NVMLError_GpuIsLost,
    pynvml.NVMLError_ResetRequired,
    pynvml.NVMLError_GpuNotFound,
    pynvml.NVMLError_InvalidArgument,  # the driver no longer knows the handle
    pynvml.NVMLError_Uninitialized,
    pynvml.NVMLError_DriverNotLoaded,
)
"""After these errors the handle must never be used again, because old drivers crash on it."""

SURE_LOST_ERRORS = tuple(
    error for error in LOST_ERRORS if error is not pynvml.NVMLError_InvalidArgument
)
"""The same without InvalidArgument, which may be about another argument or the whole question."""

NO_VALUE = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_NoData,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_ArgumentVersionMismatch,
    pynvml.NVMLLibraryMismatchError,  # not an NVMLError, unlike all the others
)
"""Errors of a driver that has no value."""


class NoValue(Exception):
    """There is no value, although NVML reports no error; the text is the reason."""


def reason(error: Exception) -> str:
    """Return why a field has no value, in a few words."""
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


NOT_INSTALLED = "No NVIDIA driver is installed (its library NVML was not found)."


def driver_problem(error: pynvml.NVMLError) -> str:
    """Return why NVML lists no GPUs, in a sentence."""
    match error:
        case pynvml.NVMLError_LibraryNotFound():
            return NOT_INSTALLED
        case pynvml.NVMLError_DriverNotLoaded():
            return "The NVIDIA driver is installed, but it is not loaded."
        case pynvml.NVMLError_LibRmVersionMismatch():
            return "The NVIDIA driver was replaced while it was in use: restart the machine."
        case pynvml.NVMLError_NoPermission():
            return "The NVIDIA driver does not let this user ask for its GPUs."
        case _:
            return f"The NVIDIA driver does not answer: {error}."
