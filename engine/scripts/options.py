"""The options of a script, read from its source: those of argparse and of Hydra's configuration.

The script is never run. What its source does not say in plain values, such as a computed default,
is left out; whatever is not read here can still be given as further words.
"""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import decode_source
from pathlib import Path
from typing import Any, Literal

import msgspec

from engine.files.regular_file import read_regular
from engine.scripts.hydra_config import config_values

LARGEST_SOURCE = 16 * 2**20
"""Bytes."""

MOST_OPTIONS = 400

_MOST_CHOICES = 100
_SUPPRESS = "SUPPRESS"
_SWITCHES = ("store_true", "store_false", "store_const", "append_const", "count")
_NOT_OPTIONS = ("help", "version")
_RESUMES = (
    *("resume_from_checkpoint", "resume_from", "resume", "resume_path", "resume_checkpoint"),
    *("ckpt_path", "load_checkpoint", "restore_from", "restore"),
)
"""Names that options to go on from a checkpoint often have, the plainest first."""

Value = bool | int | float | str
Kind = Literal["switch", "on_off", "value", "positional", "override"]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a script, as its source declares it."""

    name: str
    """A name of its own among the options of the script, such as `batch_size`."""

    kind: Kind
    """switch: a flag without a value. on_off: `--x` or `--no-x`. value: a flag and its value.
    positional: a word by its place. override: `name=value`, of Hydra."""

    flags: tuple[str, ...] = ()
    type: str = "str"
    """`bool`, `int`, `float`, `str` or `choice`."""

    default: Value | None = None
    """None: it has none, or the source does not say it in plain values."""

    default_text: str = ""
    """The default in words, also where it is computed; empty: there is none."""

    choices: tuple[Value, ...] = ()
    doc: str = ""
    group: str = ""
    is_required: bool = False
    takes_several: bool = False
    """Whether the value is several words."""

    is_repeated: bool = False
    """Whether each of several values comes with the flag."""

    @property
    def flag(self) -> str:
        """The longest flag; empty: it has none."""
        return max(self.flags, key=len, default="")

    @property
    def title(self) -> str:
        """What a person calls it: its flag without dashes, or its name."""
        return self.flag.lstrip("-") or self.name


def read_options(path: Path) -> tuple[Option, ...]:
    """Return the options of the script in `path` and of the modules beside it that it imports.

    Raises nothing: a file that cannot be read has none.
    """
    tree = _tree(path)
    if tree is None:
        return ()
    found = _argparse_options(tree)
    for module in _modules_beside(tree, path):
        if (imported := _tree(module)) is not None:
            found += _argparse_options(_without_main(imported))
    found += _hydra_options(tree, path)
    unique = {option.name: option for option in reversed(found)}
    ordered = dict.fromkeys(option.name for option in found)
    return tuple(unique[name] for name in ordered)[:MOST_OPTIONS]


def words_of(
    options: Sequence[Option], values: Mapping[str, Value], given: Collection[str] = ()
) -> list[str]:
    """Return the words of a command for `values` by name.

    Left out is what equals its default, unless its name is in `given`, and empty text. Raises
    ValueError, whose text is a sentence, if a quotation mark has no partner.
    """
    words: list[str] = []
    for option in sorted(options, key=lambda each: each.kind != "positional"):
        value = values.get(option.name)
        if value is None or value == "":
            continue
        is_default = option.default is not None and value == option.default
        if option.kind == "switch" or (is_default and option.name not in given):
            words += [option.flag] if option.kind == "switch" and value else []
        elif option.kind == "on_off":
            words.append(option.flag if value else "--no-" + option.flag.removeprefix("--"))
        else:
            words += _value_words(option, value)
    return words


def resume_suggestion(options: Sequence[Option]) -> str:
    """Return the arguments with which a script probably resumes; empty: no option looks like it.

    `{latest}` stands for its newest checkpoint, as in `RunSpec.resume_arguments`.
    """
    for name in _RESUMES:
        for option in options:
            if option.title.replace("-", "_").rpartition(".")[2].casefold() != name:
                continue
            match option.kind:
                case "switch" | "on_off":
                    return option.flag
                case "value" if not option.choices:
                    return f"{option.flag} {{latest}}"
                case "override" if not option.choices:
                    return f"{option.name}={{latest}}"
                case _:
                    pass
    return ""


def values_in(
    options: Sequence[Option], words: Sequence[str]
) -> tuple[dict[str, Value], list[str]]:
    """Return the values of `options` by name that `words` hold, and all other words.

    Texts are returned as they stand, valid or not.
    """
    flags = {flag: option for option in options for flag in option.flags}
    flags |= {
        "--no-" + flag.removeprefix("--"): option
        for option in options
        if option.kind == "on_off"
        for flag in option.flags
    }
    overrides = {option.name: option for option in options if option.kind == "override"}
    places = [option for option in options if option.kind == "positional"]
    values: dict[str, Value] = {}
    several: dict[str, list[str]] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        flag, equals, attached = word.partition("=")
        option = flags.get(word) or (flags.get(flag) if equals else None)
        if word == "--":
            rest += [word, *left]
            break
        if option is not None and option.kind in ("switch", "on_off") and not equals:
            values[option.name] = option.kind == "switch" or word in option.flags
        elif option is not None and option.kind == "value":
            taken = [attached] if equals else _take(left, option, flags)
            if not taken and not option.takes_several:
                rest.append(word)
            else:
                several.setdefault(option.name, []).extend(taken)
                if not option.takes_several:
                    values[option.name] = taken[0]
        elif equals and flag in overrides:
            values[flag] = attached
        elif not word.startswith("-") and places and not rest:
            place = places[0] if places[0].takes_several else places.pop(0)
            several.setdefault(place.name, []).append(word)
            values[place.name] = word
        else:
            rest.append(word)
            if word.startswith("-") and not equals and left and not left[0].startswith("-"):
                rest.append(left.pop(0))  # perhaps its value, which is no positional word
    for option in options:
        if option.takes_several and option.name in several:
            values[option.name] = shlex.join(several[option.name])
    return values, rest


def _take(left: list[str], option: Option, flags: Mapping[str, Option]) -> list[str]:
    """Take the words of the value of `option` from `left`."""
    if not option.takes_several or option.is_repeated:
        return [left.pop(0)] if left and left[0] not in flags else []
    taken = []
    while left and left[0].partition("=")[0] not in flags and left[0] != "--":
        taken.append(left.pop(0))
    return taken


def _value_words(option: Option, value: Value) -> list[str]:
    text = str(value)
    if option.takes_several:
        try:
            parts = shlex.split(text)
        except ValueError:
            message = f"{option.title} has a quotation mark without its partner."
            raise ValueError(message) from None
    else:
        parts = [text]
    match option.kind:
        case "positional":
            return parts
        case "override":
            return [f"{option.name}={text}"]
        case _ if option.is_repeated:
            return [word for part in parts for word in _with_flag(option.flag, part)]
        case _ if option.takes_several:
            return [option.flag, *parts]
        case _:
            return _with_flag(option.flag, text)


def _with_flag(flag: str, text: str) -> list[str]:
    """Return flag and value; joined where the value would be taken for a flag."""
    if text.startswith("-") and flag.startswith("--"):
        return [f"{flag}={text}"]
    return [flag, text]


def _tree(path: Path) -> ast.Module | None:
    try:
        content = read_regular(path, LARGEST_SOURCE, follow_links=True)
        return ast.parse(decode_source(content))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _modules_beside(tree: ast.Module, path: Path) -> Iterator[Path]:
    """Yield the files beside the script that it imports."""
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names[node.module or ""] = None
            names |= {f"{node.module or ''}.{alias.name}".lstrip("."): None for alias in node.names}
    for name in filter(None, names):
        place = path.parent.joinpath(*name.split("."))
        file = place.with_name(f"{place.name}.py")
        if file != path and file.is_file():
            yield file


def _without_main(tree: ast.Module) -> ast.Module:
    """Return the module without what it does only as a program."""
    kept = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
    ]
    return ast.Module(body=kept, type_ignores=[])


def _argparse_options(tree: ast.Module) -> list[Option]:
    constants = _constants(tree)
    groups, commands = _groups(tree)
    found = []
    changed: dict[str, Any] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = ast.unparse(node.func.value)
        if node.func.attr == "set_defaults" and owner not in commands:
            known = {word.arg: _literal(word.value, constants) for word in node.keywords}
            changed |= {name: value for name, value in known.items() if name and value is not None}
        elif node.func.attr == "add_argument" and owner not in commands:
            option = _argument(node, constants, groups.get(owner, ""))
            found += [(node.lineno, option)] if option else []
    ordered = [option for _, option in sorted(found, key=lambda each: each[0])]
    return [
        msgspec.structs.replace(
            option, default=changed[option.name], default_text=str(changed[option.name])
        )
        if isinstance(changed.get(option.name), Value)
        else option
        for option in ordered
    ]


def _groups(tree: ast.Module) -> tuple[dict[str, str], set[str]]:
    """Return the titles of groups of arguments, and the parsers of commands, by their names."""
    groups: dict[str, str] = {}
    commands: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[target],
                value=ast.Call(func=ast.Attribute(attr="add_argument_group"), args=args),
            ):
                title = args[0].value if args and isinstance(args[0], ast.Constant) else ""
                groups[ast.unparse(target)] = str(title)
            case ast.Assign(
                targets=[target], value=ast.Call(func=ast.Attribute(attr="add_parser"))
            ):
                commands.add(ast.unparse(target))
            case _:
                pass
    return groups, commands


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return the names at the top of the module that are bound to plain values, once."""
    found: dict[str, Any] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                literal = _literal(value, found)
                if name in found or literal is None:
                    found.pop(name, None)
                else:
                    found[name] = literal
            case _:
                pass
    return found


def _literal(node: ast.expr | None, constants: Mapping[str, Any]) -> Any:
    """Return the plain value of an expression; None: it has none, or it is None."""
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if node is None:
        return None
    with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(node)
    return None


def _argument(call: ast.Call, constants: Mapping[str, Any], group: str) -> Option | None:
    """Return the option that a call of `add_argument` declares; None if it is none."""
    names = [_literal(each, constants) for each in call.args]
    words = {word.arg: word.value for word in call.keywords if word.arg}
    if not names or not all(isinstance(name, str) and name for name in names):
        return None
    action = _name_of(words.get("action"), constants)
    help_text = _literal(words.get("help"), constants)
    if action in _NOT_OPTIONS or _SUPPRESS in ast.unparse(words.get("help") or ast.Constant("")):
        return None
    flags = tuple(name for name in names if name.startswith("-"))
    longest = next((flag for flag in flags if flag.startswith("--")), (flags or names)[0])
    dest = _literal(words.get("dest"), constants) or longest.lstrip("-").replace("-", "_")
    default = _literal(words.get("default"), constants)
    nargs = _literal(words.get("nargs"), constants)
    several = nargs in ("*", "+") or isinstance(nargs, int) or action in ("append", "extend")
    several = several or "REMAINDER" in ast.unparse(words.get("nargs") or ast.Constant(""))
    choices = _choices(words.get("choices"), constants)
    kind: Kind = "positional" if not flags else "value"
    if flags and action in _SWITCHES:
        kind = "switch"
    elif flags and action == "BooleanOptionalAction" and longest.startswith("--"):
        kind = "on_off"
    option = Option(
        name=str(longest.lstrip("-").replace("-", "_") if kind == "switch" else dest),
        kind=kind,
        flags=flags,
        group=group,
        is_required=bool(_literal(words.get("required"), constants))
        or (not flags and nargs not in ("?", "*") and "default" not in words),
        takes_several=several,
        is_repeated=action == "append",
    )
    if kind == "switch":
        option = msgspec.structs.replace(option, type="bool", default=False)
    elif kind == "on_off":
        option = msgspec.structs.replace(option, type="bool", default=bool(default))
    else:
        option = _typed(option, words.get("type"), default, choices)
    shown = _default_text(words.get("default"), option)
    doc = _help(help_text if isinstance(help_text, str) else "", shown)
    return msgspec.structs.replace(option, default_text=shown, doc=doc)


def _typed(
    option: Option, type_node: ast.expr | None, default: Any, choices: tuple[Value, ...]
) -> Option:
    """Return `option` with its type and default."""
    change = msgspec.structs.replace
    type_name = _name_of(type_node, {})
    if option.takes_several:
        texts = default if isinstance(default, (list, tuple)) else ()
        return change(option, default=shlex.join(map(str, texts)) if texts else None)
    if choices:
        return change(
            option, type="choice", choices=choices, default=default if default in choices else None
        )
    if "bool" in type_name and type_name != "bool":  # a function such as str2bool
        shown = str(default) if isinstance(default, bool) else None
        return change(option, type="choice", choices=("True", "False"), default=shown)
    number = isinstance(default, (int, float)) and not isinstance(default, bool)
    if type_name == "int" and (default is None or isinstance(default, int)):
        return change(option, type="int", default=default)
    if type_name == "float":
        return change(option, type="float", default=float(default) if number else None)
    if type_name in ("", "str", "Path") and isinstance(default, str):
        return change(option, default=default)
    return change(option, default=str(default) if number or isinstance(default, bool) else None)


def _choices(node: ast.expr | None, constants: Mapping[str, Any]) -> tuple[Value, ...]:
    found = _literal(node, constants)
    match node:
        case ast.Call(func=ast.Name(id="range"), args=args):
            limits = [_literal(each, constants) for each in args]
            if limits and all(isinstance(each, int) for each in limits):
                found = list(range(*limits)[: _MOST_CHOICES + 1])
        case _:
            pass
    if isinstance(found, dict):
        found = list(found)
    is_plain = isinstance(found, (list, tuple, set)) and 0 < len(found) <= _MOST_CHOICES
    if not is_plain or not all(isinstance(each, Value) for each in found):
        return ()
    return tuple(sorted(found, key=str) if isinstance(found, set) else found)


def _name_of(node: ast.expr | None, constants: Mapping[str, Any]) -> str:
    """Return the last name of an expression, or the text that it is."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name) and node.id not in constants:
        return node.id
    value = _literal(node, constants)
    return value if isinstance(value, str) else ""


def _default_text(node: ast.expr | None, option: Option) -> str:
    if option.kind in ("switch", "on_off"):
        return ""
    if option.default is not None:
        return str(option.default)
    text = ast.unparse(node) if node is not None else ""
    return "" if text in ("None", "''") else text


def _help(text: str, default: str) -> str:
    """Return the help as argparse shows it."""
    text = text.replace("%(default)s", default).replace("%(default)r", default)
    text = re.sub(r"%\((\w+)\)\w", r"\1", text).replace("%%", "%")
    return " ".join(text.split())


def _hydra_options(tree: ast.Module, path: Path) -> list[Option]:
    """Return the values of the configuration that `@hydra.main(...)` names."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="hydra"), attr="main")):
                words = {word.arg: _literal(word.value, {}) for word in node.keywords}
                folder, name = words.get("config_path"), words.get("config_name")
                if isinstance(folder, str) and isinstance(name, str):
                    return [
                        _override(key, value, choices)
                        for key, value, choices in config_values(path.parent / folder, name)
                    ]
            case _:
                pass
    return []


def _override(key: str, value: Value | None, choices: tuple[str, ...]) -> Option:
    kind = "choice" if choices else type(value).__name__
    if isinstance(value, bool):
        kind, choices, value = "choice", ("true", "false"), str(value).lower()
    if choices and value not in choices:
        value = None
    return Option(
        name=key,
        kind="override",
        type=kind if kind in ("int", "float", "choice") else "str",
        default=value,
        default_text="" if value is None else str(value),
        choices=choices,
        group=key.rpartition(".")[0],
    )
