"""Rules about what compilation and loaders need of the system."""

from __future__ import annotations

from engine.doctor.facts import SystemFacts
from engine.doctor.finding import Finding
from engine.system.units import byte_size

LEAST_SHARED_MEMORY = 1 << 30
"""Bytes: less is the 64 MiB of a container, which two loader processes fill."""


def machine_checks(facts: SystemFacts) -> list[Finding]:
    """Return what is to be said of shared memory, compilers and headers."""
    return [_shared_memory(facts), _compilers(facts), _headers(facts)]


def _shared_memory(facts: SystemFacts) -> Finding:
    name, size, free = "shared memory", facts.shared_memory, facts.shared_memory_free
    if size < 0:
        return Finding(name, "unknown", "This system has no /dev/shm: loaders use files instead.")
    remedy = "In a container: start it with `--shm-size=8g` or `--ipc=host`; or choose 0 loaders."
    if size < LEAST_SHARED_MEMORY:
        text = (
            f"/dev/shm has {byte_size(size)}: loader processes (and NCCL) may end with a bus error."
        )
        return Finding(name, "error", text, remedy)
    if free < LEAST_SHARED_MEMORY // 4:
        text = f"Only {byte_size(free)} of the {byte_size(size)} of /dev/shm are free."
        return Finding(name, "error", text, "Look into /dev/shm for what ended programs have left.")
    return Finding(name, "ok", f"/dev/shm has {byte_size(size)}, {byte_size(free)} of it free.")


def _compilers(facts: SystemFacts) -> Finding:
    name = "compiler"
    missing = [
        what for what, path in (("C", facts.c_compiler), ("C++", facts.cpp_compiler)) if not path
    ]
    if missing:
        text = f"There is no {' and no '.join(missing)} compiler: `torch.compile` cannot be used."
        return Finding(name, "error", text, "Install one, such as the packages `gcc` and `g++`.")
    if not facts.headers:
        return Finding(name, "unknown", f"{facts.c_compiler} and {facts.cpp_compiler} are there.")
    if error := facts.c_error or facts.cpp_error:
        text = f"{facts.c_compiler if facts.c_error else facts.cpp_compiler} does not compile: "
        remedy = "Install the compiler whole, such as the packages `gcc`, `g++` and `libc6-dev`."
        return Finding(name, "error", f"{text}{error}", remedy)
    text = (
        f"{facts.c_compiler} and {facts.cpp_compiler} compile a module for Python {facts.python}."
    )
    return Finding(name, "ok", text)


def _headers(facts: SystemFacts) -> Finding:
    name = "Python headers"
    if facts.headers:
        return Finding(name, "ok", f"Python.h is in {facts.include}.")
    minor = ".".join(facts.python.split(".")[:2])
    text = f"Python.h is not in {facts.include}: `torch.compile` cannot be used on GPUs."
    remedy = f"Install the package of headers, such as `python{minor}-dev`."
    return Finding(name, "error", text, remedy)
