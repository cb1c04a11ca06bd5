"""The columns of the table of runs: what each is called, what it holds, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from engine.runs.run_info import RunInfo
from engine.runs.run_notes import SWEEP_TAG, number_in
from engine.scripts.secrets import looks_secret, shown_setting, shown_words
from engine.spec.field_info import Setting
from engine.spec.metric_direction import lower_is_better, merged_overrides
from engine.spec.recipe_file import script_name
from engine.spec.run_spec import FIELDS
from engine.system.natural_order import natural_key

Value = bool | int | float | str | tuple[str, ...] | None
"""What stands in a cell; None: nothing."""


class Kind(StrEnum):
    """What the values of a column are."""

    NUMBER = "a number"
    TEXT = "text"
    FLAG = "yes or no"
    SETTING = "a setting"
    """A number, text, or yes or no: recipes and scripts may use one name for different things."""

    DATE = "a date"
    """Seconds since the epoch."""

    DURATION = "a duration"
    """Seconds."""

    LIST = "a list"
    """Several texts, such as tags."""


class Part(StrEnum):
    """Where the choice of columns lists a column."""

    RUN = "Run"
    SETTINGS = "Settings"
    RECIPE = "Settings of recipes"
    OPTIONS = "Options of scripts"
    LAST = "Metrics, last value"
    BEST = "Metrics, best value"


class Column(NamedTuple):
    """One column. `read` returns the value of a run."""

    name: str
    """What expressions, files and the stored layout call it, such as `best(validation/loss)`."""

    title: str
    kind: Kind
    part: Part
    read: Callable[[RunInfo], Value]
    lower_is_better: bool | None = None
    """Of metrics."""

    metric: str = ""
    """The series of a metric."""


ID = "id"
"""Name of the column with the number of a run."""

NO_NAMES: Mapping[str, str] = {}

SETTINGS, OPTION = "settings/", "option/"
"""How the names of a recipe's settings and of a script's options begin."""

METRIC = "metric/"
"""How the name of a metric's column begins whose series has the name of another column."""

ALIASES: Mapping[str, str] = {
    "lr": "learning_rate",
    "bs": "batch_size",
    "batch": "batch_size",
    "wd": "weight_decay",
    "tag": "tags",
    "device": "devices",
    "started": "created",
    "duration": "time",
    "wall_time": "time",
    "number": ID,
    "status": "state",
    "samples_per_second": "throughput",
    "model": "recipe",
    "hostname": "host",
    "git": "commit",
    "git_commit": "commit",
}
"""Short names of columns."""


def best_of(metric: str) -> str:
    """Return the name of the column with the best value of `metric`."""
    return f"best({metric})"


def columns_of(
    infos: Sequence[RunInfo], device_names: Mapping[str, str] = NO_NAMES
) -> dict[str, Column]:
    """Return every column that at least one of the runs may fill, by name.

    `device_names` are shown in the place of device ids.
    """
    found = [*_run_columns(device_names), *_group_columns(infos), *_setting_columns()]
    settings = sorted({name for info in infos for name in own_settings(info)}, key=natural_key)
    found += [
        Column(SETTINGS + name, name, Kind.SETTING, Part.RECIPE, partial(_recipe_setting, name))
        for name in settings
    ]
    commands = {info.spec.command for info in infos}
    options = sorted({name for command in commands for name in options_in(command)})
    found += [
        Column(OPTION + name, name, Kind.SETTING, Part.OPTIONS, partial(_option, name))
        for name in options
    ]
    directions = merged_overrides({tuple(d.items()): d for d in _directions(infos)}.values())
    taken = {folded(column.name) for column in found} | ALIASES.keys()
    for name in sorted({name for info in infos for name in info.status.metrics}, key=natural_key):
        lower = lower_is_better(name, directions)
        read = partial(_last, name)
        # What scripts log as `epoch` or `lr` must not hide the column of all runs.
        is_taken = folded(name) in taken or name.startswith((SETTINGS, OPTION, METRIC, "best("))
        unique = METRIC + name if is_taken else name
        found.append(Column(unique, name, Kind.NUMBER, Part.LAST, read, lower, name))
    for name in sorted({name for info in infos for name in info.best}, key=natural_key):
        lower = lower_is_better(name, directions)
        read = partial(_best, name)
        title = f"Best {name}"
        found.append(Column(best_of(name), title, Kind.NUMBER, Part.BEST, read, lower, name))
    return {column.name: column for column in found}


def folded(name: str) -> str:
    """Return a name as names are compared: `batch_size` for `Batch-Size`."""
    return name.casefold().replace("-", "_")


def is_missing(value: Value) -> bool:
    """Whether a cell has nothing to sort or compare: it is empty, or not a number."""
    return value is None or value == () or value == "" or (value != value)


@lru_cache(maxsize=20_000)
def options_in(command: tuple[str, ...]) -> Mapping[str, Value]:
    """Return the options that a command passes: `--lr 0.1`, `--fast`, `model.width=3`.

    The script is not read. Values that look like secrets are left out.
    """
    found: dict[str, Value] = {}
    waiting = ""
    for word in command[1:]:
        if match := _FLAG.fullmatch(word):
            if waiting:
                found[waiting] = True
            waiting, text = match["name"], match["value"]
            if text is None:
                continue
            found[waiting] = _typed(text)
        elif waiting:
            found[waiting] = _typed(word)
        elif match := _OVERRIDE.fullmatch(word):
            found[match["name"]] = _typed(match["value"])
        waiting = ""
    if waiting:
        found[waiting] = True
    return {
        name: value
        for name, value in found.items()
        if not looks_secret(name.replace("-", "_"), str(value))
    }


_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_OVERRIDE = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w./@-]*)=(?P<value>.*)", re.DOTALL)
_BOOLEANS = {"true": True, "false": False}


def _typed(text: str) -> Value:
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    try:
        whole = int(text)
        return whole if abs(whole) < 2**63 else float(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def duration(info: RunInfo) -> float:
    """Return the seconds from the beginning of a run to its newest event; 0 before the first."""
    return info.status.seconds(info.status.updated)


def _directions(infos: Iterable[RunInfo]) -> Iterable[dict[str, str]]:
    return (info.status.metric_directions for info in infos)


def place_of_run(info: RunInfo) -> tuple[str, str]:
    """Return machine and number of a run; of this machine, the first is empty."""
    machine, _, number = info.id.rpartition(":")
    return machine, number


def _run_columns(device_names: Mapping[str, str]) -> list[Column]:
    def devices(info: RunInfo) -> Value:
        return tuple(device_names.get(each, each) for each in info.spec.devices)

    part = Part.RUN
    return [
        Column("name", "Name", Kind.TEXT, part, lambda info: info.name),
        Column(ID, "Number", Kind.NUMBER, part, lambda info: int(place_of_run(info)[1])),
        Column("machine", "Machine", Kind.TEXT, part, lambda info: place_of_run(info)[0] or None),
        Column("state", "State", Kind.TEXT, part, _state),
        Column("recipe", "Recipe", Kind.TEXT, part, lambda info: _recipe(info.spec.recipe)),
        Column("strategy", "Strategy", Kind.TEXT, part, lambda info: info.spec.strategy),
        Column("devices", "Devices", Kind.LIST, part, devices),
        Column("device_count", "Number of devices", Kind.NUMBER, part, _device_count),
        Column(TAGS, "Tags", Kind.LIST, part, lambda info: info.notes.tags),
        Column("note", "Note", Kind.TEXT, part, lambda info: info.notes.note or None),
        Column("created", "Created", Kind.DATE, part, _created),
        Column("ended", "Ended", Kind.DATE, part, _ended),
        Column("time", "Duration", Kind.DURATION, part, lambda info: duration(info) or None),
        Column("epoch", "Epoch", Kind.NUMBER, part, lambda info: info.status.epoch or None),
        Column("step", "Step", Kind.NUMBER, part, lambda info: info.status.step or None),
        Column("throughput", "Throughput (samples/s)", Kind.NUMBER, part, _throughput),
        Column("energy", "Energy (Wh)", Kind.NUMBER, part, lambda info: info.status.energy or None),
        Column("parameters", "Parameters", Kind.NUMBER, part, _parameters),
        Column("attempts", "Attempts", Kind.NUMBER, part, lambda info: info.status.attempt or None),
        Column("reason", "Reason", Kind.TEXT, part, lambda info: info.reason or None),
        Column("host", "Host", Kind.TEXT, part, _host),
        Column("commit", "Git commit", Kind.TEXT, part, lambda info: info.origin.commit or None),
        Column("branch", "Git branch", Kind.TEXT, part, lambda info: info.origin.branch or None),
        Column("dirty", "Uncommitted changes", Kind.FLAG, part, _is_dirty),
        Column("parent", "Parent run", Kind.NUMBER, part, _parent),
        Column("parent_step", "Parent's step", Kind.NUMBER, part, _parent_step),
        Column("command", "Command", Kind.TEXT, part, _command),
        Column("python", "Python", Kind.TEXT, part, lambda info: info.spec.interpreter or None),
    ]


BUT_SEED = "but_seed"
"""Name of the column in which runs are alike that differ in their seed only."""

TAGS = "tags"


def _group_columns(infos: Sequence[RunInfo]) -> list[Column]:
    read = _ButSeed(infos).text
    return [
        Column("sweep", "Sweep", Kind.SETTING, Part.RUN, _sweep),
        Column(BUT_SEED, "All settings but the seed", Kind.TEXT, Part.RUN, read),
    ]


def _sweep(info: RunInfo) -> Value:
    """Return the number of a run's sweep: of another machine `gpus:3`, which is no sweep 3 here."""
    number, machine = number_in(info.notes.tags, SWEEP_TAG), place_of_run(info)[0]
    return f"{machine}:{number}" if machine and number is not None else number


class _ButSeed:
    """The settings of a run without its seed, as a text: those in which some of the runs differ.

    They are compared when the first text is read, because most tables need none.
    """

    def __init__(self, infos: Sequence[RunInfo]) -> None:
        self._infos = infos
        self._varied: frozenset[str] | None = None

    def text(self, info: RunInfo) -> Value:
        """Return the same text for two runs exactly if they differ at most in their seed."""
        if self._varied is None:
            settings = [_all_settings(each) for each in self._infos]
            names = {name for each in settings for name in each}
            self._varied = frozenset(
                name for name in names if len({repr(each.get(name)) for each in settings}) > 1
            )
        own = _all_settings(info)
        texts = [f"{name} {value}" for name, value in own.items() if name in self._varied]
        return ", ".join(texts) or "the same in all runs"


_SEED_WORD = re.compile(r"--?(?:random[-_])?seed|(?:--?|\+{0,2})(?:\w+\.)*(?:random[-_])?seed=.*")


def _all_settings(info: RunInfo) -> dict[str, Value]:
    """Return what decides how a run trains but for its seed, by name."""
    spec = info.spec
    found: dict[str, Value] = {
        "recipe": spec.recipe,
        "strategy": spec.strategy,
        "devices": len(spec.devices),
    }
    if spec.is_imported:
        found |= spec.settings
    elif spec.command:
        found["command"] = " ".join(_without_seed(shown_words(spec.command)))
    else:
        found |= {name: getattr(spec, name) for name in FIELDS} | spec.settings
    return {name: value for name, value in found.items() if name not in ("seed", "random_seed")}


def _without_seed(words: Iterable[str]) -> Iterator[str]:
    """Leave out `--seed 3`, `--seed=3` and `seed=3`."""
    left = iter(words)
    for word in left:
        if not _SEED_WORD.fullmatch(word):
            yield word
        elif "=" not in word:
            next(left, None)


IMPORTED = "imported"
"""In the place of the state of a run that was imported."""


def _state(info: RunInfo) -> Value:
    return IMPORTED if info.spec.is_imported else str(info.state)


@lru_cache(maxsize=2000)
def _recipe(path: str) -> str:
    return script_name(Path(path))


def _device_count(info: RunInfo) -> Value:
    return len(info.spec.devices)


def _created(info: RunInfo) -> Value:
    return info.status.started or info.status.updated or None


def _ended(info: RunInfo) -> Value:
    return info.status.updated or None if info.state.is_over else None


def _throughput(info: RunInfo) -> Value:
    return info.status.samples_per_second or None


def _parameters(info: RunInfo) -> Value:
    return info.status.parameters or None


def _parent(info: RunInfo) -> Value:
    number = info.origin.parent.rpartition(":")[2]
    return int(number) if number.isdecimal() else None


def _parent_step(info: RunInfo) -> Value:
    return info.origin.parent_step or None


def _host(info: RunInfo) -> Value:
    return info.status.machine.host or info.origin.host or None


def _is_dirty(info: RunInfo) -> Value:
    return info.origin.is_dirty if info.origin.commit else None


def _command(info: RunInfo) -> Value:
    return " ".join(shown_words(info.spec.command)) or None


_KINDS = {"bool": Kind.FLAG, "int": Kind.NUMBER, "float": Kind.NUMBER}


def _setting_columns() -> list[Column]:
    return [
        Column(
            name,
            field.title,
            _KINDS.get(field.type, Kind.TEXT),
            Part.SETTINGS,
            partial(setting_value, name),
        )
        for name, field in FIELDS.items()
    ]


USUAL_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "learning_rate": ("learning_rate", "lr"),
    "batch_size": ("batch_size", "bs", "batch", "per_device_train_batch_size"),
    "epochs": ("epochs", "num_epochs", "max_epochs", "num_train_epochs"),
    "steps": ("steps", "max_steps"),
    "weight_decay": ("weight_decay", "wd"),
    "accumulation": ("accumulation", "gradient_accumulation_steps"),
    "clip_norm": ("clip_norm", "max_grad_norm"),
    "warmup_steps": ("warmup_steps",),
    "optimizer": ("optimizer", "optim"),
    "momentum": ("momentum",),
    "seed": ("seed",),
    "precision": ("precision",),
}
"""The options of scripts that mean a setting of ours, with `_` for `-`."""

_FOR_SCRIPTS = frozenset(
    ("queue", "keep_awake", "max_restarts", "hang_minutes", "stop_seconds", "orphan_seconds")
)
"""Settings that Traindeck itself applies to a script too."""


def setting_value(name: str, info: RunInfo) -> Value:
    """Return a setting of `FIELDS`; None if it is not known.

    Of a script, it is what its command passes under a usual name; of an imported run, what its
    files say.
    """
    spec = info.spec
    if spec.is_imported:
        passed: Mapping[str, Value] = spec.settings
    elif spec.command and name not in _FOR_SCRIPTS:
        passed = {key.replace("-", "_"): value for key, value in options_in(spec.command).items()}
    else:
        value: Value = getattr(spec, name)
        return value
    kind = _KINDS.get(FIELDS[name].type, Kind.TEXT)
    names = (name,) if spec.is_imported else ()
    for option in (*names, *USUAL_OPTIONS.get(name, ())):
        value = passed.get(option)
        is_text, is_flag = isinstance(value, str), isinstance(value, bool)
        if value is not None and (is_text, is_flag) == (kind is Kind.TEXT, kind is Kind.FLAG):
            return value
    return None


def own_settings(info: RunInfo) -> Mapping[str, Setting]:
    """Return the settings of the recipe; of an imported run, those that are none of `FIELDS`."""
    settings = {name: shown_setting(name, each) for name, each in info.spec.settings.items()}
    if not info.spec.is_imported:
        return settings
    return {
        name: value
        for name, value in settings.items()
        if name not in FIELDS or setting_value(name, info) is None
    }


def _recipe_setting(name: str, info: RunInfo) -> Value:
    return own_settings(info).get(name)


def _option(name: str, info: RunInfo) -> Value:
    return options_in(info.spec.command).get(name) if info.spec.command else None


def _last(name: str, info: RunInfo) -> Value:
    return info.status.metrics.get(name)


def _best(name: str, info: RunInfo) -> Value:
    best = info.best.get(name)
    return best.value if best else None


def number_of(value: Value) -> float | None:
    """Return a number, which may be NaN or infinite; None if the value is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return None
