"""Finds the modules beside a recipe that it imports, without running any of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from engine.files.regular_file import read_regular

MOST_FILES = 500
MOST_BYTES = 8 * 2**20
"""Limits of what is kept of one recipe's modules. What exceeds them is left out."""


PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})


def local_modules(
    recipe: Path, source: bytes, left_out: list[str] | None = None
) -> dict[str, bytes]:
    """Return the content of each module in the folder of `recipe` that `source`, or one of these
    modules, imports: by its path relative to the folder, with `/`.

    A module counts if Python would find it there: it has an import statement anywhere in the
    file, or a call of `import_module` with a constant name. Installed packages do not count.
    Raises nothing: a module that cannot be read, or exceeds the limits, is left out; `left_out`
    gets its path.
    """
    found: dict[str, bytes] = {}
    left = MOST_BYTES
    seen = set()
    may_import = _pattern_of_names(recipe)
    waiting = [(source, "")]
    while waiting:
        code, package = waiting.pop()
        if not may_import.search(code):
            continue  # to parse it would take milliseconds
        for name in _imported(code, package):
            if name in seen:
                continue
            seen.add(name)
            try:
                files = list(files_of(recipe.parent, name))
            except OSError:  # a folder that cannot be entered, a name that is too long
                continue
            for file, its_package in files:
                path = file.relative_to(recipe.parent).as_posix()
                if path in found or file == recipe:
                    continue
                content = _content(file, left)
                if content is None or len(found) == MOST_FILES:
                    if left_out is not None:
                        left_out.append(path)
                    continue
                left -= len(content)
                found[path] = content
                waiting.append((content, its_package))
    return dict(sorted(found.items()))


def module_name(path: str) -> str:
    """Return the name under which the file is imported: `nets.blocks` for `nets/blocks.py`."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _pattern_of_names(recipe: Path) -> re.Pattern[bytes]:
    """Return what a file must hold to import a module beside `recipe`: a name, or `from .`."""
    names = {entry.partition(".")[0] for entry in _entries(recipe.parent)} - {recipe.stem}
    if not all(map(str.isascii, names)):
        return re.compile(b"")  # the file may write them in another encoding
    words = "|".join(filter(str.isidentifier, names)) or "$^"
    return re.compile(rf"\b(?:{words}|__all__)\b|\bfrom\s+\.".encode())


def _entries(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _imported(source: bytes, package: str) -> Iterator[str]:
    """Yield the names of all modules that `source` may import; `package` is the one it is in."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # its import fails too
    for statement in _import_statements(tree):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
            continue
        base = absolute_name(statement.module or "", package, statement.level)
        if base is not None:
            yield base
            yield from (f"{base}.{alias.name}" for alias in statement.names)
    if b"import_module" in source:
        yield from _named_in_calls(tree)
    if package:  # `from package import *` imports the submodules of this list
        yield from (f"{package}.{name}" for name in _exported(tree))


def _import_statements(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield them from the whole file; expressions, most of its nodes, hold no statements."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list):  # the body of a lambda is an expression
                waiting += inner


def _named_in_calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if _called(function) == "import_module" and not name.startswith("."):
                    yield name
            case _:
                continue


def absolute_name(module: str, package: str, level: int) -> str | None:
    """Return the full name of `module` after `from`, which may be relative; None if it fails."""
    if not level:
        return module
    parts = package.split(".")
    if not package or level > len(parts):
        return None
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [module])])


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _exported(tree: ast.Module) -> list[str]:
    """Return the strings of `__all__`."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id="__all__")], value=ast.List(elts) | ast.Tuple(elts)
            ):
                values = [each.value for each in elts if isinstance(each, ast.Constant)]
                return [value for value in values if isinstance(value, str)]
            case _:
                continue
    return []


def files_of(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the file of each package on the way to the module `name`, then its own, as Python finds
    them below `folder`, each with the name of the package that it is in."""
    package: list[str] = []
    for part in name.split("."):
        if not part.isidentifier():
            return
        inner = folder / part
        if inner.is_dir() and not _is_foreign(inner):
            package.append(part)
            folder = inner
            if _is_source(inner / "__init__"):
                yield inner / "__init__.py", ".".join(package)
                continue
            if not _is_source(inner):
                continue  # a package without __init__.py
            package.pop()
        if _is_source(inner):
            yield inner.with_name(f"{part}.py"), ".".join(package)
        return


def is_installed(file: Path, below: Path) -> bool:
    """Whether a file below a folder is of an installed package: in an environment, or put there by
    `pip install --target`, whose records name it."""
    if not PACKAGE_FOLDERS.isdisjoint(file.parts):
        return True
    for folder in file.parents:
        if not folder.is_relative_to(below):
            return False
        name = file.relative_to(folder).as_posix()
        if any(_lists(record, name) for record in folder.glob("*.dist-info/RECORD")):
            return True
    return False


def _lists(record: Path, name: str) -> bool:
    try:
        lines = record.read_text().splitlines()
    except (OSError, ValueError):
        return False
    return any(line.startswith((f"{name},", f'"{name}",')) for line in lines)


def _is_foreign(folder: Path) -> bool:
    """Whether the folder holds installed packages: such as a virtual environment."""
    return folder.name in PACKAGE_FOLDERS or (folder / "pyvenv.cfg").exists()


def _is_source(stem: Path) -> bool:
    """Whether Python imports `<stem>.py`; a compiled module of the same name comes first."""
    if not stem.with_name(f"{stem.name}.py").is_file():
        return False
    return not any(stem.with_name(stem.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)


def _content(file: Path, most: int) -> bytes | None:
    """Return the content of a module, None if it cannot be read or has more than `most` bytes."""
    try:
        return read_regular(file, most, follow_links=True)
    except OSError:
        return None
