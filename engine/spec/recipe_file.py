"""Reads a recipe file with `ast`, without importing it: its framework, settings and defaults."""

from __future__ import annotations

import ast
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from typing import Any

import msgspec

from engine.files.regular_file import read_regular
from engine.spec.field_info import FieldInfo, Setting
from engine.spec.metric_direction import Direction, bare_name

FUNCTIONS = ("model", "datasets", "loss", "metrics", "optimizer", "stages")
"""The functions of a recipe; the first two are required."""

LARGEST_RECIPE = 16 * 2**20
"""Bytes."""

_ENGINE_ARGUMENTS = {"outputs", "targets", "parameters", "learning_rate", "model", "count"}
"""Arguments that the engine passes; they are not settings."""

_FRAMEWORKS = ("keras", "torch")
_SETTABLE = frozenset({"bool", "int", "float", "str"})


class RecipeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a recipe, read from its file without running it."""

    name: str
    path: str
    """Absolute path of its file."""

    copy: str = ""
    """Path of the copy in the folder of the run that trains it; empty: this is the file itself."""

    builtin: bool
    framework: str = ""
    """`torch` or `keras`."""

    doc: str = ""
    fields: tuple[FieldInfo, ...] = ()
    can_be_partitioned: bool = False
    """Whether its model can be partitioned into stages: it has `stages()` or names a Sequential."""

    epochs: int = 5
    batch_size: int = 128
    learning_rate: float = 1e-3
    metric_directions: dict[str, str] = {}
    """`min` or `max` by metric, where the recipe overrides `engine.spec.metric_direction`."""

    problem: str = ""
    """Why the recipe cannot be used, in a sentence; empty when it can."""

    @property
    def reference(self) -> str:
        """The value of `RunSpec.recipe` for this recipe."""
        return self.name if self.builtin else self.path

    @property
    def file(self) -> Path:
        """The file that is described here, and that is executed: the copy, if there is one."""
        return Path(self.copy or self.path)

    def owns(self, file: Path) -> bool:
        """Return whether `file` is the user's code: the recipe, or a module in its folder.

        Modules beside a built-in recipe and installed packages are not the user's code.
        """
        recipe = Path(self.path)
        is_beside = not self.builtin and file.is_relative_to(recipe.parent)
        return file == recipe or (is_beside and "site-packages" not in file.parts)


def read_recipe(path: Path, *, builtin: bool = False, copy: Path | None = None) -> RecipeInfo:
    """Read the recipe in `path`, or its `copy`. Raises nothing: `problem` tells why it is invalid.

    Each process parses the same content once.
    """
    info = RecipeInfo(name=path.stem, path=str(path), builtin=builtin, copy=str(copy or ""))
    file = info.file
    try:
        content = read_regular(file, LARGEST_RECIPE, follow_links=copy is None)
        return _parse(decode_source(content), info.path, builtin, info.copy)
    except FileNotFoundError:
        problem = f"There is no recipe file {file}: check the path."
    except SyntaxError as error:
        problem = f"The recipe {path} has a syntax error in line {error.lineno}: {error.msg}."
        if error.lineno is None:  # it is not in the encoding that it says, or in UTF-8
            problem = f"The recipe {file} cannot be read: {error.msg}."
    except (OSError, ValueError) as error:
        problem = f"The recipe {file} cannot be read: {error}."
    except (RecursionError, MemoryError):  # from the parser
        problem = f"The recipe {path} cannot be read: it is nested too deeply."
    except _Unusable as error:
        problem = str(error)
    return msgspec.structs.replace(info, problem=problem)


@lru_cache(maxsize=32)
def _parse(source: str, path: str, builtin: bool, copy: str) -> RecipeInfo:
    info = RecipeInfo(name=Path(path).stem, path=path, builtin=builtin, copy=copy)
    return _describe(ast.parse(source, filename=path), info)


class _Unusable(Exception):
    """The file is Python, but not a recipe; the text is a sentence."""


def _describe(tree: ast.Module, info: RecipeInfo) -> RecipeInfo:
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS
    }
    for required in ("model", "datasets"):
        if required not in functions:
            raise _Unusable(
                f"The recipe {info.path} has no function {required}(): "
                "a recipe defines model() and datasets()."
            )
    fields: dict[str, FieldInfo] = {}
    for function in functions.values():
        for field in _fields_of(function):
            first = fields.setdefault(field.name, field)
            if (first.type, first.default) != (field.type, field.default):
                raise _Unusable(
                    f"In the recipe {info.path} two functions have a setting {field.name!r} with "
                    "different types or defaults: one name is one setting, so make them equal."
                )
    return msgspec.structs.replace(
        info,
        framework=_framework(tree, info.path),
        doc=(ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " "),
        fields=tuple(fields.values()),
        can_be_partitioned="stages" in functions or _mentions_sequential(tree),
        metric_directions=_metric_directions(tree, info.path),
        **_defaults(tree, info.path),
    )


def _framework(tree: ast.Module, path: str) -> str:
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported.add(node.module.partition(".")[0])
    found = [framework for framework in _FRAMEWORKS if framework in imported]
    if len(found) == 1:
        return found[0]
    if found:
        raise _Unusable(f"The recipe {path} imports both keras and torch: import one of them.")
    raise _Unusable(f"The recipe {path} imports neither torch nor keras: its model needs one.")


def _mentions_sequential(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "Sequential")
        or (isinstance(node, ast.Name) and node.id == "Sequential")
        for node in ast.walk(tree)
    )


def _fields_of(function: ast.FunctionDef) -> list[FieldInfo]:
    arguments = function.args
    positional = arguments.posonlyargs + arguments.args
    required = len(positional) - len(arguments.defaults)
    with_default = zip(positional[required:], arguments.defaults, strict=True)
    keyword_only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    doc = (ast.get_docstring(function) or "").strip()
    found = []
    for argument, default in (*with_default, *keyword_only):
        if default is not None and argument.arg not in _ENGINE_ARGUMENTS:
            field = _field(argument, default, doc)
            found += [field] if field else []
    return found


def _field(argument: ast.arg, default: ast.expr, doc: str) -> FieldInfo | None:
    try:
        value: Any = ast.literal_eval(default)
    except (ValueError, TypeError):
        return None  # a computed default: the argument is not a setting
    choices = _literal_choices(argument.annotation)
    if choices:
        valid = value in choices
        return FieldInfo(argument.arg, "choice", value, choices, doc) if valid else None
    annotation = ast.unparse(argument.annotation) if argument.annotation else ""
    kind = annotation if annotation in _SETTABLE else type(value).__name__
    if kind not in _SETTABLE:
        return None
    return FieldInfo(argument.arg, kind, value, (), doc)


def _literal_choices(annotation: ast.expr | None) -> tuple[Setting, ...]:
    if not isinstance(annotation, ast.Subscript):
        return ()
    if ast.unparse(annotation.value).rpartition(".")[2] != "Literal":
        return ()
    try:
        value = ast.literal_eval(annotation.slice)
    except (ValueError, TypeError):
        return ()
    choices = value if isinstance(value, tuple) else (value,)
    return choices if all(isinstance(choice, Setting) for choice in choices) else ()


def _defaults(tree: ast.Module, path: str) -> dict[str, int | float]:
    """Return the literal `DEFAULTS = {"epochs": ..., "batch_size": ..., "learning_rate": ...}`."""
    value = _literal(tree, "DEFAULTS")
    try:
        return {
            key: kind(value[key])
            for key, kind in (("epochs", int), ("batch_size", int), ("learning_rate", float))
            if key in value
        }
    except (ValueError, TypeError, OverflowError):
        raise _Unusable(
            f"DEFAULTS in the recipe {path} must be a literal dictionary of numbers with the "
            "keys epochs, batch_size and learning_rate."
        ) from None


def _metric_directions(tree: ast.Module, path: str) -> dict[str, str]:
    """Return the literal `METRIC_DIRECTIONS = {"mae": "min", "score": "max"}`."""
    value = _literal(tree, "METRIC_DIRECTIONS")
    try:
        directions: dict[str, str] = msgspec.convert(value, dict[str, Direction])
    except msgspec.ValidationError:
        raise _Unusable(
            f"METRIC_DIRECTIONS in the recipe {path} must be a literal dictionary that has "
            '"min" or "max" for the names of metrics.'
        ) from None
    return {bare_name(name): direction for name, direction in directions.items()}


def _literal(tree: ast.Module, name: str) -> Any:
    """Return the value of `name`: {} without an assignment, None if it is not a literal."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=found)], value=written)
                | ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as written)
            ) if found == name:
                try:
                    return ast.literal_eval(written)
                except (ValueError, TypeError):
                    return None
    return {}
