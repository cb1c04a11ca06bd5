"""Finds what a name of a recipe is bound to, also in modules beside it, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import decode_source
from pathlib import Path
from typing import NamedTuple

from engine.files.regular_file import read_regular
from engine.spec.local_modules import MOST_BYTES, absolute_name, files_of

MODULES_OF_LIBRARIES = frozenset({"torchvision", "sklearn", "keras", "tensorflow", "torchaudio"})
"""Packages that have a module `datasets`; what is imported from them under that name is no
function."""

_DEEPEST = 50
"""The longest chain of names and modules that is followed."""


class Unusable(Exception):
    """The file is Python, but not a recipe; the text is a sentence."""


class Module(NamedTuple):
    """The recipe, or a module beside it, as it was parsed."""

    file: Path
    """The original, which the user knows."""

    tree: ast.Module
    package: str
    """The package that it is in; empty: none."""

    bindings: dict[str, list[ast.AST]]
    """What each name of the module may be bound to: several if that depends on a condition."""


class Function(NamedTuple):
    """A function, a class or a lambda, whose parameters can be read."""

    module: Module
    arguments: ast.arguments
    line: int
    doc: str
    skipped: int = 0
    """How many of the first positional parameters are bound already, or are `self`."""

    bound: dict[str, ast.expr] = {}
    """The arguments that `functools.partial` binds by name: new defaults."""


class Foreign(NamedTuple):
    """Something of an installed package, or of a class without parameters: it may be called."""

    module: Module
    line: int
    origin: str
    """The package that it comes from; empty: it is certainly a class or a function."""


class Thing(NamedTuple):
    """No function: an object, or a module."""

    module: Module
    line: int
    what: str
    """Such as `a module`, or `what a call returns`."""


Meaning = Function | Foreign | Thing


class RecipeCode:
    """The recipe and the modules beside it, which are read when a name leads to them."""

    def __init__(self, recipe: Path, source: str, modules: Path | None) -> None:
        """`modules` is the folder in which the modules are looked for; None: there are none.

        Raises SyntaxError, and ValueError, RecursionError or MemoryError for strange sources.
        """
        self._folder = recipe.parent
        self._modules = modules
        self._read: dict[str, Module | None] = {}
        self.used: dict[Path, bytes | None] = {}
        """The content of each file beside the recipe that was looked for; None: it is not there."""

        self.recipe = _module(recipe, ast.parse(source, filename=str(recipe)), "")

    def meanings(self, name: str) -> list[Meaning]:
        """Return what the recipe's `name` may mean; nothing if it is not bound.

        Raises Unusable if it cannot be used, such as an async function.
        """
        return list(self._meanings(self.recipe, name, 0))

    def local_modules(self) -> Iterator[Module]:
        """Yield each module beside the recipe that it, or one of these modules, imports; the
        nearest first."""
        waiting, seen = [self.recipe], {self.recipe.file}
        while waiting:
            module = waiting.pop(0)
            for name in _imported(module):
                found = self._module(name)
                if found is not None and found.file not in seen:
                    seen.add(found.file)
                    waiting.append(found)
                    yield found

    def _meanings(self, module: Module, name: str, depth: int) -> Iterator[Meaning]:
        nodes = module.bindings.get(name, [])
        for node in nodes:
            yield from self._meanings_of(module, name, node, depth + 1)
        if not nodes:
            for package in _starred(module):
                other = self._module(package)
                if other is not None and depth < _DEEPEST and not name.startswith("_"):
                    yield from self._meanings(other, name, depth + 1)

    def _meanings_of(
        self, module: Module, name: str, node: ast.AST, depth: int
    ) -> Iterator[Meaning]:
        """Yield what `node` means, which binds `name` or is its value."""
        if depth > _DEEPEST:
            return
        line = getattr(node, "lineno", 0)
        match node:
            case ast.AsyncFunctionDef():
                raise Unusable(
                    f"{name}() in line {line} of {module.file} is an async function, which does "
                    "nothing when it is called: write `def` instead of `async def`."
                )
            case ast.FunctionDef() | ast.Lambda():
                doc = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else ""
                yield Function(module, node.args, line, doc or "")
            case ast.ClassDef():
                yield self._constructor(module, node, depth)
            case ast.ImportFrom():
                yield from self._imported_name(module, name, node, depth)
            case ast.Import():
                yield Thing(module, line, "a module")
            case ast.Name(id=other):
                yield from self._meanings(module, other, depth)
            case ast.Attribute():
                yield from self._attribute(module, node, depth)
            case ast.IfExp():
                yield from self._meanings_of(module, name, node.body, depth + 1)
                yield from self._meanings_of(module, name, node.orelse, depth + 1)
            case ast.Call(func=function, args=[inner, *rest]) if _last_name(function) == "partial":
                for meaning in self._meanings_of(module, name, inner, depth + 1):
                    yield _partial(meaning, module, node, len(rest))
            case ast.Call():
                yield Thing(module, line, "what a call returns")
            case _:
                yield Thing(module, line, "a value")

    def _constructor(self, module: Module, node: ast.ClassDef, depth: int) -> Meaning:
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                doc = ast.get_docstring(node) or ast.get_docstring(statement) or ""
                return Function(module, statement.args, node.lineno, doc, skipped=1)
        for base in node.bases:
            for meaning in self._meanings_of(module, "", base, depth + 1):
                if isinstance(meaning, Function):
                    return meaning
        return Foreign(module, node.lineno, "")

    def _imported_name(
        self, module: Module, name: str, node: ast.ImportFrom, depth: int
    ) -> Iterator[Meaning]:
        """Yield what `from ... import ... as name` means."""
        base = absolute_name(node.module or "", module.package, node.level)
        original = next(each.name for each in node.names if (each.asname or each.name) == name)
        found = self._module(base) if base else None
        if found is None:
            if base is not None and self._module(f"{base}.{original}" if base else original):
                yield Thing(module, node.lineno, "a module")
            else:
                yield Foreign(module, node.lineno, (base or "").partition(".")[0] or "?")
            return
        meanings = list(self._meanings(found, original, depth))
        yield from meanings
        if meanings:
            return
        if self._module(f"{base}.{original}"):
            yield Thing(module, node.lineno, "a module")
        elif _is_dynamic(found, self):
            yield Foreign(module, node.lineno, "")
        else:
            raise Unusable(
                f"Line {node.lineno} of {module.file} imports {original} from {found.file}, which "
                "does not define it."
            )

    def _attribute(self, module: Module, node: ast.Attribute, depth: int) -> Iterator[Meaning]:
        """Yield what `module.name` means; the attribute of an object is a value."""
        dotted = ast.unparse(node.value)
        root, _, rest = dotted.partition(".")
        for binding in module.bindings.get(root, []):
            full = _module_of(module, root, binding)
            if full is None:
                continue
            inner = ".".join(filter(None, [full, rest]))
            found = self._module(inner)
            if found is None:
                yield Foreign(module, node.lineno, full.partition(".")[0])
            else:
                yield from self._meanings(found, node.attr, depth)
            return
        yield Thing(module, node.lineno, "a value")

    def _module(self, name: str) -> Module | None:
        """Return the module `name` beside the recipe; None if there is none that can be read."""
        if name not in self._read:
            self._read[name] = None  # also while it is read: modules may import each other
            self._read[name] = self._load(name)
        return self._read[name]

    def _load(self, name: str) -> Module | None:
        if self._modules is None or not name:
            return None
        if name == self.recipe.file.stem:
            return self.recipe
        parts = name.split(".")
        try:
            files = list(files_of(self._modules, name))
        except OSError:
            return None
        places = (self._modules.joinpath(*parts, "__init__.py"), self._modules.joinpath(*parts))
        wanted = (places[0], places[1].with_name(f"{parts[-1]}.py"))
        for file in wanted:
            self.used[file] = None
        for file, package in files:
            if file not in wanted:
                continue
            content = _content(file)
            self.used[file] = content
            original = self._folder / file.relative_to(self._modules)
            try:
                tree = ast.parse(decode_source(content or b""), filename=str(original))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None  # its import fails in the worker, which tells why
            return _module(original, tree, package)
        return None


def still_valid(used: dict[Path, bytes | None]) -> bool:
    """Whether each file of `RecipeCode.used` has the same content as before."""
    return all(_content(file) == content for file, content in used.items())


def _content(file: Path) -> bytes | None:
    try:
        return read_regular(file, MOST_BYTES, follow_links=True)
    except OSError:
        return None


def _module(file: Path, tree: ast.Module, package: str) -> Module:
    bindings: dict[str, list[ast.AST]] = {}
    for name, node, is_conditional in _bindings(tree.body, False):
        used = node.args[0] if isinstance(node, ast.Call) and node.args else node
        if isinstance(used, ast.Name) and used.id == name:  # such as model = partial(model, 3)
            used.id = f"{name} before line {used.lineno}"
            bindings[used.id] = bindings.get(name, [])
        if not is_conditional:
            bindings[name] = []
        bindings.setdefault(name, []).append(node)
    return Module(file, tree, package, bindings)


def _bindings(body: list[ast.stmt], is_conditional: bool) -> Iterator[tuple[str, ast.AST, bool]]:
    """Yield each name that these statements bind, in order, with what it is bound to, and whether
    that depends on a condition."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, statement, is_conditional
            case ast.Assign():
                for target in statement.targets:
                    yield from _targets(target, statement.value, is_conditional)
            case ast.AnnAssign(value=ast.expr() as value):
                yield from _targets(statement.target, value, is_conditional)
            case ast.Import():
                for alias in statement.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    yield name, statement, is_conditional
            case ast.ImportFrom():
                for alias in statement.names:
                    yield alias.asname or alias.name, statement, is_conditional
            case ast.If():
                if not _never_runs(statement.test):
                    yield from _bindings(statement.body, True)
                yield from _bindings(statement.orelse, True)
            case ast.With():
                yield from _bindings(statement.body, is_conditional)
            case ast.For() | ast.While():
                yield from _bindings([*statement.body, *statement.orelse], True)
            case ast.Try() | ast.TryStar():
                yield from _bindings(statement.body, is_conditional)
                for handler in statement.handlers:
                    yield from _bindings(handler.body, True)
                yield from _bindings([*statement.orelse, *statement.finalbody], is_conditional)
            case ast.Match():
                for each in statement.cases:
                    yield from _bindings(each.body, True)
            case _:
                continue


def _targets(
    target: ast.expr, value: ast.expr, is_conditional: bool
) -> Iterator[tuple[str, ast.AST, bool]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value, is_conditional
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for each, its_value in zip(targets, values, strict=True):
                yield from _targets(each, its_value, is_conditional)
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), _):
            unknown = ast.Constant(None, lineno=value.lineno)
            for each in targets:
                yield from _targets(each, unknown, is_conditional)
        case _:
            return


def _never_runs(test: ast.expr) -> bool:
    """Whether the condition is false in a worker: `__name__ == "__main__"`, `TYPE_CHECKING`."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant("__main__")]):
            return True
        case _:
            return _last_name(test) == "TYPE_CHECKING"


def _partial(meaning: Meaning, module: Module, node: ast.Call, positional: int) -> Meaning:
    if not isinstance(meaning, Function):
        return meaning._replace(line=node.lineno)
    bound = {each.arg: each.value for each in node.keywords if each.arg is not None}
    return meaning._replace(
        skipped=meaning.skipped + positional, bound=meaning.bound | bound, line=node.lineno
    )


def _module_of(module: Module, name: str, node: ast.AST) -> str | None:
    """Return the module that `name` stands for if `node`, an import, binds it; else None."""
    match node:
        case ast.Import():
            for alias in node.names:
                if alias.asname == name:
                    return alias.name
            return name
        case ast.ImportFrom():
            base = absolute_name(node.module or "", module.package, node.level)
            original = next(each.name for each in node.names if (each.asname or each.name) == name)
            return None if base is None else ".".join(filter(None, [base, original]))
        case _:
            return None


def _imported(module: Module) -> Iterator[str]:
    """Yield the names of the modules that the import statements of `module` may name."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute_name(node.module or "", module.package, node.level)
            if base is not None:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _starred(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            base = absolute_name(node.module or "", module.package, node.level)
            if base:
                yield base


def _is_dynamic(module: Module, code: RecipeCode) -> bool:
    """Whether the module may have names that cannot be read from its source."""
    if "__getattr__" in module.bindings or "globals" in _called_names(module.tree):
        return True
    return any(code._module(package) is None for package in _starred(module))


def _called_names(tree: ast.Module) -> set[str]:
    return {_last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def _last_name(expression: ast.expr) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
