"""Rules about what compilation and loaders need of the system."""

from __future__ import annotations

from engine.doctor.check import Check
from engine.doctor.facts import SystemFacts
from engine.system.units import byte_size

LEAST_SHARED_MEMORY = 1 << 30
"""Bytes: less is the 64 MiB of a container, which two loader processes fill."""


def machine_checks(facts: SystemFacts) -> list[Check]:
    """Return what is to be said of shared memory, compilers and headers."""
    return [_shared_memory(facts), _compilers(facts), _headers(facts)]


def _shared_memory(facts: SystemFacts) -> Check:
    name, size, free = "shared memory", facts.shared_memory, facts.shared_memory_free
    if size < 0:
        return Check(name, None, "This system has no /dev/shm: loaders use files instead.")
    remedy = "In a container: start it with `--shm-size=8g` or `--ipc=host`; or choose 0 loaders."
    if size < LEAST_SHARED_MEMORY:
        text = (
            f"/dev/shm has {byte_size(size)}: loader processes (and NCCL) may end with a bus error."
        )
        return Check(name, False, text, remedy)
    if free < LEAST_SHARED_MEMORY // 4:
        text = f"Only {byte_size(free)} of the {byte_size(size)} of /dev/shm are free."
        return Check(name, False, text, "Look into /dev/shm for what ended programs have left.")
    return Check(name, True, f"/dev/shm has {byte_size(size)}, {byte_size(free)} of it free.")


def _compilers(facts: SystemFacts) -> Check:
    name = "compiler"
    missing = [
        what for what, path in (("C", facts.c_compiler), ("C++", facts.cpp_compiler)) if not path
    ]
    if missing:
        text = f"There is no {' and no '.join(missing)} compiler: `torch.compile` cannot be used."
        return Check(name, False, text, "Install one, such as the packages `gcc` and `g++`.")
    if not facts.headers:
        return Check(name, None, f"{facts.c_compiler} and {facts.cpp_compiler} are there.")
    if error := facts.c_error or facts.cpp_error:
        text = f"{facts.c_compiler if facts.c_error else facts.cpp_compiler} does not compile: "
        remedy = "Install the compiler whole, such as the packages `gcc`, `g++` and `libc6-dev`."
        return Check(name, False, f"{text}{error}", remedy)
    text = (
        f"{facts.c_compiler} and {facts.cpp_compiler} compile a module for Python {facts.python}."
    )
    return Check(name, True, text)


def _headers(facts: SystemFacts) -> Check:
    name = "Python headers"
    if facts.headers:
        return Check(name, True, f"Python.h is in {facts.include}.")
    minor = ".".join(facts.python.split(".")[:2])
    text = f"Python.h is not in {facts.include}: `torch.compile` cannot be used on GPUs."
    remedy = f"Install the package of headers, such as `python{minor}-dev`."
    return Check(name, False, text, remedy)
