"""Keeps our modules apart from modules of the user that have the same names, in one worker.

The user's code gets its own `engine`, `gui`, `main` or `tests`, if it has one. Our code gets ours:
from then on, our package `engine` has the name ALIAS in this process, and our import statements
are translated. Everything that finds a module by its name (pickle, inspect, importlib) thus finds
the right one. Our own modules are then imported by statements only, not by strings.
"""

from __future__ import annotations

import builtins
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import Any

from engine.processes.process import PROJECT
from engine.worker import environment

OURS = "engine"
ALIAS = "traindeck_engine"

_PACKAGE = str(PROJECT / OURS)
_import = builtins.__import__


def leave_the_path() -> None:
    """Let no other module of this project hide one of the user's.

    What only we have is still found.
    """
    ours, variable = str(PROJECT), "PYTHONPATH"
    if not any(isinstance(finder, _LastResort) for finder in sys.meta_path):
        sys.meta_path.append(_LastResort())
    sys.path[:] = [entry for entry in sys.path if entry != ours]
    # For programs that the recipe starts; those of ours set it again.
    others = [each for each in os.environ.get(variable, "").split(os.pathsep) if each != ours]
    os.environ[variable] = os.pathsep.join(others)
    if not any(others):
        del os.environ[variable]


def has_package(entries: Sequence[str]) -> bool:
    """Whether these entries of a search path hold a module `engine` that is not ours."""
    found = PathFinder.find_spec(OURS, [entry for entry in entries if entry])
    return found is not None and not _is_our_file(found.origin)


def set_aside() -> None:
    """Give our package the name ALIAS, so that `engine` is the user's; once is enough."""
    if ALIAS in sys.modules:
        return
    ours = {
        name: module
        for name, module in list(sys.modules.items())
        if name == OURS or name.startswith(f"{OURS}.")
    }
    # Threads of ours may import meanwhile: until the end, both names are there.
    for name, module in ours.items():
        _rename(module, name, _alias(name))
        sys.modules[_alias(name)] = module
    builtins.__import__ = _import_for
    sys.meta_path.insert(0, _Finder())
    for name in ours:
        del sys.modules[name]
    logging.getLogger(ALIAS).parent = logging.getLogger(OURS)
    os.environ[environment.SET_ASIDE] = "1"


def _import_for(
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Do what `builtins.__import__` does; a statement of ours finds our package."""
    if not level and (name == OURS or name.startswith(f"{OURS}.")) and _is_ours(globals or {}):
        name = _alias(name)
    return _import(name, globals, locals, fromlist or (), level)


def _is_ours(module: Mapping[str, Any]) -> bool:
    name = module.get("__name__", "")
    if name in ("__main__", "__mp_main__"):
        return _is_our_file(module.get("__file__"))
    return name == ALIAS or str(name).startswith(f"{ALIAS}.")


def _is_our_file(file: object) -> bool:
    return isinstance(file, str) and file.startswith(_PACKAGE + os.sep)


def _alias(name: str) -> str:
    return ALIAS + name.removeprefix(OURS)


def _rename(module: ModuleType, old: str, new: str) -> None:
    """Give a module, and all that it defines, its new name: pickle and others look it up."""
    module.__name__ = new
    if module.__package__:
        module.__package__ = _alias(module.__package__)
    if module.__spec__ is not None:
        module.__spec__.name = new
        loader: Any = module.__spec__.loader
        if hasattr(loader, "name"):
            loader.name = new
    for value in list(vars(module).values()):
        _rename_definition(value, old, new)


def _rename_definition(value: object, old: str, new: str) -> None:
    if not isinstance(value, type | FunctionType) or value.__module__ != old:
        return
    value.__module__ = new
    if isinstance(value, type):
        for inner in list(vars(value).values()):
            _rename_definition(inner, old, new)


class _Finder:
    """Finds `engine` for the user's code: the user's own, or ours where there is no other."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name == OURS:
            return None if self._is_users() else ModuleSpec(name, _Ours())
        is_below_ours = sys.modules.get(OURS) is sys.modules[ALIAS]
        return ModuleSpec(name, _Ours()) if is_below_ours and name.startswith(f"{OURS}.") else None

    def _is_users(self) -> bool:
        others = (each for each in sys.meta_path if each is not self)
        specs = (each.find_spec(OURS, None) for each in others if not isinstance(each, _LastResort))
        return any(spec is not None and not _is_our_file(spec.origin) for spec in specs)


class _Ours(Loader):
    """Loads one of our modules for the user's code under the name that it knows."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(_alias(module.__name__))


class _LastResort:
    """Finds the other top-level modules of this project, after all those of the user."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        return PathFinder.find_spec(name, [str(PROJECT)]) if path is None else None
