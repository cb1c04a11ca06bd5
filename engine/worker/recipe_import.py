"""Imports a recipe and its local modules from their copy in the run folder.

They keep the paths of the originals: `__file__`, and the file in a traceback. So a recipe finds its
data beside its file, and the source that is shown is the source that is executed, also if the
original was changed or deleted since the start.
"""

from __future__ import annotations

import io
import linecache
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import decode_source, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from engine.files.regular_file import read_regular
from engine.spec.local_modules import MOST_BYTES, MOST_FILES, module_name
from engine.spec.recipe_copy import copied_modules
from engine.spec.recipe_file import LARGEST_RECIPE, RecipeInfo
from engine.worker import environment, own_modules

NAME = "recipe"
"""The name of every recipe as a module."""

_MOST_NAMED = 10
"""A notice names at most this many modules."""


class RecipeImports:
    """Imports the recipe of this process, and knows which modules its copy lacks."""

    def __init__(self, recipe: RecipeInfo) -> None:
        self._folder = Path(recipe.path).parent
        self._builtin = recipe.builtin
        self._loaded_before = frozenset(sys.modules)
        self._path_before = tuple(sys.path)
        self._begun = time.time()
        self._reported: set[str] = set()
        if not recipe.builtin:
            own_modules.leave_the_path()
            sys.path.insert(0, str(self._folder))  # as if the user had run the file
            sys.argv[:] = [
                recipe.path
            ]  # a module that reads arguments when it is imported gets none
        self._finder = _install(Path(recipe.path), recipe.file, has_copy=bool(recipe.copy))

    def import_recipe(self) -> ModuleType:
        """Execute the recipe, and return its module. Raises what the recipe raises."""
        specification = self._finder.find_spec(NAME)
        assert specification is not None
        assert specification.loader is not None
        module = module_from_spec(specification)
        sys.modules[NAME] = module
        specification.loader.exec_module(module)
        return module

    def notice_of_others(self) -> str:
        """Return which modules were imported that the run keeps no copy of, in sentences.

        Empty: no new one since the last call. Installed packages do not count.
        """
        found = [] if self._builtin else sorted(self._others() - self._reported)
        self._reported.update(found)
        if not found:
            return ""
        names = ", ".join(found[:_MOST_NAMED])
        if more := len(found) - len(found[:_MOST_NAMED]):
            names += f" and {more} more"
        return (
            f"The run keeps no copy of {names}: when it is restarted or resumed, it trains with "
            "these modules as they are then. Copied are the modules beside the recipe that an "
            f"import statement names, at most {MOST_FILES} files and {MOST_BYTES >> 20} MiB."
        )

    def _others(self) -> set[str]:
        # Python, installed packages and Traindeck, also where they lie below the recipe's folder.
        foreign = tuple(
            os.path.join(entry, "")  # noqa: PTH118
            for entry in self._path_before
            if entry and not self._folder.is_relative_to(entry)
        )
        added = (entry for entry in sys.path if entry not in self._path_before)
        own = tuple(os.path.join(each, "") for each in (str(self._folder), *added))  # noqa: PTH118
        found = set()
        for name in sys.modules.keys() - self._loaded_before:
            module = sys.modules.get(name)
            file = getattr(module, "__file__", None)
            if (
                isinstance(file, str)
                and file.startswith(own)
                and not file.startswith(foreign)
                and "site-packages" not in file
                and not isinstance(getattr(module, "__loader__", None), _Loader)
                and not self._is_generated(file)
            ):
                path = Path(file)
                beside = path.is_relative_to(self._folder)
                found.add(str(path.relative_to(self._folder) if beside else path))
        return found

    def _is_generated(self, file: str) -> bool:
        """Whether the file was written since, as those of AutoGraph are."""
        try:
            return os.stat(file).st_mtime >= self._begun  # noqa: PTH116
        except OSError:
            return False


def serve_spawned_process() -> None:
    """Let a process that a worker has spawned, such as a data loader, import the same copy.

    It has inherited the environment of the worker, and gets its `sys.path`.
    """
    own_modules.leave_the_path()
    original, copy = (os.environ.get(name) for name in (environment.RECIPE, environment.COPY))
    if original:
        _install(Path(original), Path(copy or original), has_copy=bool(copy))


class _File(NamedTuple):
    original: Path
    copy: Path


class _Finder:
    """A finder of `sys.meta_path`: the recipe, and the modules beside it that were copied."""

    def __init__(self, recipe: _File, modules: Mapping[str, _File]) -> None:
        """`modules` has the files by the names under which they are imported."""
        self._recipe = recipe
        self._modules = modules
        self._folder = recipe.original.parent
        parts = [name.split(".") for name in modules]
        packages = {".".join(each[:n]) for each in parts for n in range(1, len(each))}
        self._without_init = packages - modules.keys()
        self._namesake = _imported_namesake(recipe)
        self._searched: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import the module `name`; see `importlib.abc.MetaPathFinder`."""
        if path is None:
            self.look_for_namesake()
        if name == NAME:
            return _specification(name, self._recipe)
        if name == self._namesake and path is None and (other := self._outside(name)):
            return other
        if name in self._without_init:
            return PathFinder.find_spec(name, path) or self._package(name)
        file = self._modules.get(name)
        if file is None or not self._comes_first(name, path):
            return None
        return _specification(name, file)

    def look_for_namesake(self) -> None:
        """Set our own package aside if the user has one of this name, also in a folder that the
        recipe has just added to the search path."""
        added = [entry for entry in sys.path if entry not in self._searched]
        self._searched.update(added)
        if added and own_modules.has_package(added):
            own_modules.set_aside()

    def _outside(self, name: str) -> ModuleSpec | None:
        """Return how to import a module `name` that is not in the recipe's folder."""
        own = ("", str(self._folder))
        return PathFinder.find_spec(name, [entry for entry in sys.path if entry not in own])

    def _comes_first(self, name: str, path: Sequence[str] | None) -> bool:
        """Whether Python would look for the module `name` in the recipe's folder first."""
        folder = str(self._folder.joinpath(*name.split(".")[:-1]))
        entries = list(sys.path if path is None else path)
        if folder not in entries:
            return False
        earlier = entries[: entries.index(folder)]
        other = PathFinder.find_spec(name, earlier) if earlier else None
        return other is None or other.loader is None

    def _package(self, name: str) -> ModuleSpec:
        """Return a package without `__init__.py`; its folder may not exist any more."""
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [str(self._folder.joinpath(*name.split(".")))]
        return found


class _Loader(SourceFileLoader):
    """Executes a copy as if it were the original; it neither reads nor writes compiled files."""

    def __init__(self, name: str, file: _File) -> None:
        super().__init__(name, str(file.original))
        self._copy = file.copy

    def get_data(self, path: Any) -> bytes:
        if path != self.path:
            return super().get_data(path)
        is_copy = str(self._copy) != path
        source = read_regular(self._copy, LARGEST_RECIPE, follow_links=not is_copy)
        _remember(path, source)
        return source

    def path_stats(self, path: Any) -> Any:
        raise OSError(f"{path} is executed from {self._copy}")


def _install(original: Path, copy: Path, *, has_copy: bool) -> _Finder:
    """Make the recipe and its copied modules importable, here and in processes spawned later."""
    recipe = _File(original, copy)
    modules = {}
    if has_copy:
        for path, file in copied_modules(copy.parent).items():
            modules[module_name(path)] = _File(original.parent / path, file)
        modules.setdefault(original.stem, recipe)  # a module of it may import it by its own name
    finder = _Finder(recipe, modules)
    sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    sources = [copy, *(file.copy for file in modules.values())]
    roots = {name.partition(".")[0] for name in modules}
    if own_modules.OURS in roots or any(map(_names_our_package, sources)):
        own_modules.set_aside()
    finder.look_for_namesake()
    os.environ[environment.RECIPE] = str(original)
    os.environ[environment.COPY] = str(copy) if has_copy else ""
    linecache.updatecache = _recall
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_error_of_thread
    return finder


def _imported_namesake(recipe: _File) -> str:
    """Return the name of the recipe's file if the recipe imports it, or nothing.

    No file means itself by that: `lightning.py` that imports lightning means the library.
    """
    name = recipe.original.stem
    words = rf"^[ \t]*(?:from|import)[ \t]+(?:[\w. \t]+,[ \t]*)*{re.escape(name)}\b"
    try:
        source = recipe.copy.read_bytes()
    except OSError:
        return ""
    return name if re.search(words.encode(), source, re.MULTILINE) else ""


def _names_our_package(file: Path) -> bool:
    """Whether an import statement in the file names `engine`: whose it is, the import tells."""
    try:
        return bool(_IMPORT_OF_ENGINE.search(file.read_bytes()))
    except OSError:
        return False


_IMPORT_OF_ENGINE = re.compile(
    rb"^[ \t]*(?:from|import)\b[^#\n]*\bengine\b|import_module\([^)\n]*\bengine\b", re.MULTILINE
)


def _specification(name: str, file: _File) -> ModuleSpec | None:
    is_package = file.original.name == "__init__.py"
    return spec_from_file_location(
        name,
        str(file.original),
        loader=_Loader(name, file),
        submodule_search_locations=[str(file.original.parent)] if is_package else None,
    )


def _remember(path: str, source: bytes) -> None:
    """Let tracebacks, `inspect`, AutoGraph and pdb show `source` for `path`, and not the file."""
    try:
        lines = io.StringIO(decode_source(source)).readlines()
    except (SyntaxError, ValueError):
        return  # it cannot be compiled either
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    _sources[path] = lines
    _recall(path)


def _recall(filename: str, module_globals: dict[str, Any] | None = None) -> list[str]:
    """Do what `linecache.updatecache` does, which AutoGraph calls, but read no file of a recipe."""
    lines = _sources.get(filename)
    if lines is None:
        return _read_again(filename, module_globals)
    size = sum(map(len, lines))
    linecache.cache[filename] = (size, None, lines, filename)  # no time: it is not compared
    return lines


_sources: dict[str, list[str]] = {}
"""The lines of what was executed, by the path of the original."""

_read_again = linecache.updatecache


def _print_error_of_thread(arguments: threading.ExceptHookArgs) -> None:
    """Do what Python does; its own function reads the lines from the files."""
    if arguments.exc_type is SystemExit:
        return
    name = arguments.thread.name if arguments.thread else threading.get_ident()
    error = arguments.exc_value
    text = "".join(traceback.format_exception(arguments.exc_type, error, arguments.exc_traceback))
    print(f"Exception in thread {name}:\n{text}", end="", file=sys.stderr, flush=True)
