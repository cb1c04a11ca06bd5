"""Reads a recipe file with `ast`, without importing it: its framework, settings and defaults."""

from __future__ import annotations

import ast
import difflib
import re
import shlex
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from importlib.util import decode_source
from itertools import chain, takewhile
from operator import methodcaller
from pathlib import Path
from typing import Any

import msgspec

from engine.files.regular_file import read_regular
from engine.spec.field_info import FieldInfo, Setting
from engine.spec.local_modules import is_installed, local_modules
from engine.spec.metric_direction import Direction, bare_name
from engine.spec.recipe_names import (
    MODULES_OF_LIBRARIES,
    Foreign,
    Function,
    Meaning,
    Module,
    RecipeCode,
    Thing,
    Unusable,
    still_valid,
)
from engine.system.program import call

FUNCTIONS = (
    *("model", "datasets", "loss", "metrics", "optimizer", "stages"),
    *("step", "weight", "validate", "optimizers", "ema", "on_epoch"),
    *("collate", "callbacks", "sample_loss"),
)
"""The functions of a recipe."""

_OBJECTS = frozenset({"collate"})
"""Those of FUNCTIONS that may be any object that can be called, such as one of a library."""

REQUIRED = FUNCTIONS[:2]
"""Those that every recipe has. A file with none of them is a script."""

SCRIPT = "script"
"""The framework of what is no recipe: a script, or any other program."""

LARGEST_RECIPE = 16 * 2**20
"""Bytes."""

MODULES = "modules"
"""The folder beside the copy of a recipe with those of its local modules, by their paths relative
to the recipe's own folder."""

_ENGINE_ARGUMENTS = {
    *("outputs", "targets", "parameters", "learning_rate", "model"),
    *("batch", "carried", "named_parameters", "epoch", "total_steps", "steps_per_epoch"),
}
"""Arguments that the engine passes; they are not settings."""

_FRAMEWORKS = {"torch": "torch", "keras": "keras", "tensorflow": "keras"}
"""The framework of a recipe by the package that it imports; the first one counts."""

_BUILT_ON = {
    **dict.fromkeys(("torchvision", "torchaudio", "torchtext", "timm", "transformers"), "torch"),
    **dict.fromkeys(("lightning", "pytorch_lightning", "torch_geometric", "diffusers"), "torch"),
    **dict.fromkeys(("keras_hub", "keras_cv", "keras_nlp"), "keras"),
}
"""Packages that import a framework, for a recipe that leaves its import to them."""

_DEFAULTS = {"epochs": int, "steps": int, "batch_size": int, "learning_rate": float}
"""The keys of a recipe's DEFAULTS with their types."""

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
    """`torch` or `keras`; `script`: it is no recipe, but a script or a program."""

    uses_calls: bool = False
    """Whether a script, or a module of its project that it imports, lets the calls of `traindeck`
    keep its state. Whether it resumes by them depends on its processes: see `resumes_by_calls`."""

    doc: str = ""
    functions: tuple[str, ...] = ()
    """Those of `FUNCTIONS` that the file defines."""

    fields: tuple[FieldInfo, ...] = ()
    can_be_partitioned: bool = False
    """Whether its model can be partitioned into stages: it has `stages()` or names a Sequential."""

    epochs: int = 5
    steps: int = 0
    """Optimizer steps of a run; 0: by epochs."""

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

    @property
    def is_script(self) -> bool:
        """Whether this is a script or a program, which runs as it is."""
        return self.framework == SCRIPT

    def owns(self, file: Path) -> bool:
        """Return whether `file` is the user's code: the recipe, or a module in its folder.

        Modules beside a built-in recipe and installed packages are not the user's code.
        """
        recipe = Path(self.path)
        is_beside = not self.builtin and file.is_relative_to(recipe.parent)
        return file == recipe or (is_beside and not is_installed(file, recipe.parent))


def read_recipe(path: Path, *, builtin: bool = False, copy: Path | None = None) -> RecipeInfo:
    """Read the recipe in `path`, or its `copy`. Raises nothing: `problem` tells why it is invalid.

    Each process parses the same content once.
    """
    info = RecipeInfo(name=path.stem, path=str(path), builtin=builtin, copy=str(copy or ""))
    file = info.file
    try:
        content = read_regular(file, LARGEST_RECIPE, follow_links=copy is None)
        found = _parse(decode_source(content), info.path, builtin, info.copy)
        if not found.is_script:
            return found
        return msgspec.structs.replace(found, uses_calls=_uses_calls(path, content))
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
    return msgspec.structs.replace(info, problem=problem)


def read_script(path: Path) -> RecipeInfo:
    """Describe a script, whatever it holds, or any other program. Raises nothing: see `problem`.

    It may be written for another Python, so that this one cannot parse it.
    """
    info = RecipeInfo(name=script_name(path), path=str(path), builtin=False, framework=SCRIPT)
    try:
        if path.suffix != ".py":
            path.stat()
            return info
        content = read_regular(path, LARGEST_RECIPE, follow_links=True)
    except FileNotFoundError:
        return msgspec.structs.replace(
            info, problem=f"There is no script {path}: check the path and the working folder."
        )
    except (OSError, ValueError) as error:
        problem = f"The script {path} cannot be read: {error}."
        return msgspec.structs.replace(info, problem=problem)
    try:
        doc = _first_paragraph(ast.parse(decode_source(content)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        doc = ""
    return msgspec.structs.replace(info, doc=doc, uses_calls=_uses_calls(path, content))


def no_recipe(info: RecipeInfo) -> str:
    """Return in a sentence that a script is no recipe, and how it is run; empty for a recipe."""
    if not info.is_script or not info.path:  # none is chosen yet
        return ""
    return (
        f"{info.path} has no functions model() and datasets(), so it is no recipe but a script: "
        f"`{call(f'run -- {shlex.quote(info.path)}')}` runs it as it is."
    )


def script_name(path: Path) -> str:
    """Return the name of a script: that of its file, or of its package."""
    return path.parent.name if path.stem in ("__main__", "__init__") else path.stem


_IMPORT_OF_CALLS = re.compile(
    rb"^[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*)traindeck\b",
    re.MULTILINE,
)


_CALL_THAT_KEEPS = re.compile(rb"\b(?:keep|KerasCallback)\b")


def _uses_calls(path: Path, content: bytes) -> bool:
    if _lets_keep(content):
        return True
    places = [path, *(folder / path.name for folder in _project_folders(path))]
    return any(
        _lets_keep(module) for place in places for module in local_modules(place, content).values()
    )


def _lets_keep(module: bytes) -> bool:
    """Whether a module gives a call something to keep, and does not only log with them."""
    return bool(_IMPORT_OF_CALLS.search(module) and _CALL_THAT_KEEPS.search(module))


def _project_folders(script: Path) -> list[Path]:
    """Return the folders above `script` whose packages it may import: its project is installed."""
    for folder in script.parents[1:_DEEPEST_SCRIPT]:
        if any((folder / name).exists() for name in _PROJECT_FILES):
            return [folder, folder / "src"]
    return []


_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_DEEPEST_SCRIPT = 6


def _parse(source: str, path: str, builtin: bool, copy: str) -> RecipeInfo:
    key = (source, path, builtin, copy)
    if (known := _known.get(key)) and still_valid(known[1]):
        return known[0]
    info = RecipeInfo(name=Path(path).stem, path=path, builtin=builtin, copy=copy)
    modules = Path(copy).parent / MODULES if copy else Path(path).parent
    code = RecipeCode(Path(path), source, None if builtin else modules)
    try:
        info = _describe(code, info)
    except Unusable as error:
        info = msgspec.structs.replace(info, problem=str(error))
    _known[key] = info, code.used
    while len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
    return info


_known: OrderedDict[tuple[str, str, bool, str], tuple[RecipeInfo, dict[Path, bytes | None]]] = (
    OrderedDict()
)
"""What was read, with the files beside the recipe on which it depends."""

_MOST_KNOWN = 32


def _describe(code: RecipeCode, info: RecipeInfo) -> RecipeInfo:
    tree = code.recipe.tree
    found = {name: _callable(code.meanings(name), name) for name in REQUIRED}
    if not _is_recipe(found):
        name = script_name(Path(info.path))
        return msgspec.structs.replace(
            info, name=name, framework=SCRIPT, doc=_first_paragraph(tree)
        )
    for required in REQUIRED:
        if not found[required]:
            raise Unusable(_missing(code, required, info.path))
    meanings = {name: _callable(code.meanings(name), name) for name in FUNCTIONS}
    fields: dict[str, FieldInfo] = {}
    functions = [each for found in meanings.values() for each in found]
    reserved = _ENGINE_ARGUMENTS | ({"count"} if meanings["stages"] else set())
    places: dict[str, str] = {}
    for function in functions:
        if not isinstance(function, Function):
            continue
        for field in _fields_of(function, reserved):
            first = fields.setdefault(field.name, field)
            place = places.setdefault(field.name, _place(function))
            if (first.type, first.default) != (field.type, field.default):
                raise Unusable(
                    f"In the recipe {info.path} two functions have a setting {field.name!r} with "
                    f"different types or defaults ({place}, and {_place(function)}): one name is "
                    "one setting, so make them equal."
                )
    trees = [tree, *(each.module.tree for each in functions if each.module is not code.recipe)]
    return msgspec.structs.replace(
        info,
        framework=_framework(code, info.path),
        doc=_first_paragraph(tree),
        functions=tuple(
            name
            for name in FUNCTIONS
            if meanings[name] or (name in _OBJECTS and code.meanings(name))
        ),
        fields=tuple(fields.values()),
        can_be_partitioned=bool(meanings["stages"]) or any(map(_mentions_sequential, trees)),
        metric_directions=_metric_directions(tree, info.path),
        **_defaults(tree, info.path, is_copy=bool(info.copy)),
    )


_STRESSED = re.compile(r"(?<![\w*])(\*{1,2})(?=\S)([^*]+?)(?<=\S)\1(?![\w*])")
"""`*words*` or `**words**`; a product has a word, a number or a space beside its sign."""


def _first_paragraph(tree: ast.Module) -> str:
    return _plain((ast.get_docstring(tree) or "").partition("\n\n")[0])


def _plain(text: str) -> str:
    """Return a text of a docstring as one line for people: without the marks around names, and
    around words that are stressed."""
    return " ".join(_STRESSED.sub(r"\2", text.replace("`", "")).split())


def _argument_doc(doc: str, name: str) -> str:
    """Return what the docstring of a function says about an argument: its own entry, in the style
    of Google, NumPy or Sphinx, otherwise the first paragraph."""
    lines = doc.splitlines()
    google = rf"(?P<indent> *){name}(?: ?\(.*?\))?:(?P<text>.*)"
    sphinx = rf"(?P<indent> *):param (?:.+ )?{name}:(?P<text>.*)"
    numpy = rf"(?P<indent> *){name} : .*(?P<text>)"
    for number, line in enumerate(lines):
        forms = (re.fullmatch(form, line) for form in (google, sphinx, numpy))
        if found := next(filter(None, forms), None):
            is_deeper = methodcaller("startswith", found["indent"] + " ")
            below = takewhile(is_deeper, lines[number + 1 :])
            if text := _plain(" ".join([found["text"], *below])):
                return text
    return _plain("\n".join(lines).partition("\n\n")[0])


def _is_recipe(found: Mapping[str, Sequence[Function | Foreign]]) -> bool:
    """Whether a file with these callables for REQUIRED is a recipe, or wants to be one.

    What a package gives may be a module, which many scripts import under such a name.
    """
    certain = (isinstance(each, Function) or not each.origin for each in chain(*found.values()))
    return any(certain) or all(found.values())


def _callable(meanings: Sequence[Meaning], name: str) -> list[Function | Foreign]:
    """Return those of `meanings` that can be called."""
    return [each for each in meanings if not isinstance(each, Thing) and not _is_module(each, name)]


def _is_module(meaning: Meaning, name: str) -> bool:
    """Whether it is the module `datasets` of a library, which scripts import by that name."""
    if not isinstance(meaning, Foreign):
        return False
    return name == "datasets" and meaning.origin in MODULES_OF_LIBRARIES


def _missing(code: RecipeCode, name: str, path: str) -> str:
    """Say that the recipe has no function `name`, or what it has in its place."""
    for meaning in code.meanings(name):
        what = meaning.what if isinstance(meaning, Thing) else "a module"
        return (
            f"{name} in {_place(meaning)} is {what}, and no function: write "
            f"`def {name}(): return ...`, or give it the name of a function or a class."
        )
    return f"The recipe {path} has no function {name}(): a recipe defines model() and datasets()."


def _place(meaning: Meaning) -> str:
    return f"line {meaning.line} of {meaning.module.file}"


def _framework(code: RecipeCode, path: str) -> str:
    """Return the framework that the recipe imports; if none, that of the modules beside it."""
    for modules in ([code.recipe], code.local_modules()):
        found: dict[str, str] = {}
        for module in modules:
            found = _imported_frameworks(module) | found
        # Many PyTorch programs use TensorFlow, or the data sets of its Keras, for their data.
        if found.keys() == {"torch", "tensorflow"}:
            del found["tensorflow"]
        if {"torch", "keras"} <= found.keys():
            raise Unusable(
                f"The recipe {path} imports both keras and torch ({found['keras']}, and "
                f"{found['torch']}): import one of them."
            )
        for name in _FRAMEWORKS:
            if name in found:
                return _FRAMEWORKS[name]
    raise Unusable(
        f"The recipe {path} imports neither torch nor keras, and no module beside it does: "
        "import the one that its model needs."
    )


def _imported_frameworks(module: Module) -> dict[str, str]:
    """Return the place of the first import of each framework, by its name in `_FRAMEWORKS`."""
    found: dict[str, str] = {}
    built_on: dict[str, str] = {}
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(name), level=0):
                names = [name]
            case _:
                continue
        for name in names:
            root, place = name.partition(".")[0], f"line {node.lineno} of {module.file}"
            if root in _FRAMEWORKS:
                found.setdefault(root, place)
            elif root in _BUILT_ON:
                built_on.setdefault(_BUILT_ON[root], place)
    return found or built_on


def _mentions_sequential(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "Sequential")
        or (isinstance(node, ast.Name) and node.id == "Sequential")
        for node in ast.walk(tree)
    )


def _fields_of(function: Function, reserved: Set[str]) -> list[FieldInfo]:
    arguments = function.arguments
    positional = arguments.posonlyargs + arguments.args
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    by_keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    left = list(zip(positional, defaults, strict=True))[function.skipped :]
    found = []
    for argument, default in (*left, *by_keyword):
        value = function.bound.get(argument.arg, default)
        if value is not None and argument.arg not in reserved:
            field = _field(argument, value, _argument_doc(function.doc, argument.arg))
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


def _defaults(tree: ast.Module, path: str, *, is_copy: bool) -> dict[str, int | float]:
    """Return the literal `DEFAULTS = {"epochs": ..., "batch_size": ..., "learning_rate": ...}`.

    A key that is none of these was mistyped, or would have no effect; the copy of a run, which has
    its settings, may have been made before that was refused.
    """
    value = _literal(tree, "DEFAULTS")
    unknown = [key for key in value if key not in _DEFAULTS] if isinstance(value, dict) else []
    if unknown and not is_copy:
        near = difflib.get_close_matches(str(unknown[0]), _DEFAULTS, 1)
        raise Unusable(
            f"DEFAULTS in the recipe {path} has the key {unknown[0]!r}, which means nothing there: "
            + (f"did you mean {near[0]}? " if near else "")
            + f"It may have {', '.join(_DEFAULTS)}; a setting of your own is an argument with "
            "a default, such as def model(width=64)."
        )
    try:
        return {key: kind(value[key]) for key, kind in _DEFAULTS.items() if key in value}
    except (ValueError, TypeError, OverflowError):
        raise Unusable(
            f"DEFAULTS in the recipe {path} must be a literal dictionary of numbers with the "
            f"keys {', '.join(_DEFAULTS)}."
        ) from None


def _metric_directions(tree: ast.Module, path: str) -> dict[str, str]:
    """Return the literal `METRIC_DIRECTIONS = {"mae": "min", "score": "max"}`."""
    value = _literal(tree, "METRIC_DIRECTIONS")
    try:
        directions: dict[str, str] = msgspec.convert(value, dict[str, Direction])
    except msgspec.ValidationError:
        raise Unusable(
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
