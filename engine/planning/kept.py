"""The results that are kept, in files of JSON: `planning/` in the data folder has the newest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from filelock import FileLock

from engine.facts.run_facts import FORMAT, Planning
from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_regular
from engine.planning.results import (
    BatchSearch,
    CheckResult,
    Divergence,
    Entry,
    MemoryEstimate,
    Preflight,
    Race,
    Replay,
    Result,
    StrategyTrials,
)
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import migrate_spec
from engine.system import paths

FOLDER = "planning"
MOST = 50
LARGEST = 8 * 2**20
"""Bytes of one file; a race of 100 entries takes 250 KiB."""

LOCK_SECONDS = 10.0


class NoSuchResult(Exception):
    """There is no result with this number, or it cannot be read; the text is a sentence."""


class Earlier(NamedTuple):
    """The newest results for a recipe on some devices; None: there is none."""

    race: Race | None = None
    preflight: Preflight | None = None


def says_something(result: Result) -> bool:
    """Whether a result is one of those that are kept, and has measured or found something."""
    match result:
        case Race(entries=entries):
            return any(each.samples_per_second for each in entries)
        case Preflight(findings=found):
            return bool(found)
        case _:
            return False


def keep(result: Result) -> int:
    """Write a result and return its number; of more than MOST, the oldest are deleted.

    Raises OSError.
    """
    folder = paths.private_folder(FOLDER)
    with FileLock(folder / "lock", mode=0o600).acquire(timeout=LOCK_SECONDS):
        known = numbers()
        number = max(known, default=0) + 1
        kept = Planning(
            number=number,
            measured=time.time(),
            summary=summary(result),
            result=msgspec.to_builtins(result),
        )
        write_atomically(_path(number), msgspec.json.encode(kept), mode=0o600)
        for old in known[MOST - 1 :]:
            _path(old).unlink(missing_ok=True)
    return number


def numbers() -> list[int]:
    """Return the numbers of the results that are kept, newest first."""
    names = (file.stem for file in (paths.home() / FOLDER).glob("*.json"))
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def planned(number: int) -> Planning:
    """Return the file of a result, to start a run with it. Raises NoSuchResult."""
    try:
        found = msgspec.json.decode(read_regular(_path(number), LARGEST), type=Planning)
    except FileNotFoundError:
        known = ", ".join(map(str, numbers())) or "none"
        raise NoSuchResult(f"There is no measurement {number}; there are: {known}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise NoSuchResult(f"{_path(number)} cannot be read: {error}.") from error
    if found.format > FORMAT:
        raise NoSuchResult(f"{_path(number)} was written by a newer version of Traindeck.")
    return found


def read(number: int) -> Result:
    """Return a result that was kept. Raises NoSuchResult."""
    return result_of(planned(number))


def result_of(planning: Planning) -> Result:
    """Return what was measured, also from the copy of a run. Raises NoSuchResult."""
    try:
        found: Result = msgspec.convert(_migrated(planning.result), Result)
    except (ValueError, RecursionError) as error:
        raise NoSuchResult(f"Measurement {planning.number} cannot be read: {error}.") from error
    return found


def _migrated(result: Any) -> Any:
    """Return a stored result whose settings are those that this version knows."""
    if not isinstance(result, dict):
        return result
    found = dict(result)
    if "spec" in found:
        found["spec"] = migrate_spec(found["spec"])
    if isinstance(entries := found.get("entries"), list):
        found["entries"] = [_migrated(each) for each in entries]
    return found


def newest_for(spec: RunSpec) -> tuple[int, Result] | None:
    """Return the newest result that says something about a run with `spec`, and its number."""
    for number in numbers():
        try:
            result = read(number)
        except NoSuchResult:
            continue  # fsck tells of it
        if any(_is_alike(each, spec) for each in _specs(result)):
            return number, result
    return None


def measured_before(spec: RunSpec) -> Planning | None:
    """Return the newest result that says something about a run with `spec`; None: there is none."""
    newest = newest_for(spec)
    try:
        return planned(newest[0]) if newest is not None else None
    except NoSuchResult:
        return None  # another program has just deleted it


def earlier(spec: RunSpec) -> Earlier:
    """Return the newest results for the recipe of `spec` on its devices."""
    race = preflight = None
    for number in numbers():
        try:
            result = read(number)
        except NoSuchResult:
            continue
        if isinstance(result, Race) and race is None:
            devices = {device for each in result.entries for device in each.devices}
            is_alike = devices == set(spec.devices) and result.entries[0].spec.recipe == spec.recipe
            race = result if is_alike else None
        elif isinstance(result, Preflight) and preflight is None:
            own = result.spec
            is_alike = (own.recipe, set(own.devices)) == (spec.recipe, set(spec.devices))
            preflight = result if is_alike else None
        if race is not None and preflight is not None:
            break
    return Earlier(race, preflight)


def summary(result: Result) -> str:
    """Return one sentence with what came out."""
    match result:
        case Race():
            return _race_summary(result)
        case Preflight():
            wrong = [each for each in result.findings if each.level in ("error", "warning")]
            found = f"{wrong[0].name}: {wrong[0].text}" if wrong else "nothing stands out."
            return f"Preflight: {found}"
        case MemoryEstimate() | BatchSearch():
            return result.text or result.problem
        case CheckResult():
            return result.problem
        case Replay():
            return result.sentence
        case Divergence():
            return result.answer
        case StrategyTrials(trials):
            failed = sum(each.finding.level == "error" for each in trials)
            return f"{len(trials)} trials of strategies, of which {failed} failed."


def _race_summary(race: Race) -> str:
    able = [each for each in race.entries if each.samples_per_second]
    if not able:
        return f"Raced {_count(len(race.entries))}, of which none could run."
    best = able[0]
    tied = [each for each in able if each.is_tied]
    end = f" (a tie within the noise with {_names(tied)})" if tied else ""
    return (
        f"Raced {_count(len(race.entries))}: {best.strategy} on {_devices(best)} was fastest with "
        f"{best.samples_per_second:,.0f} samples/s{end}."
    )


def _names(entries: list[Entry]) -> str:
    return ", ".join(f"{each.strategy} on {_devices(each)}" for each in entries)


def _devices(entry: Entry) -> str:
    count = len(entry.devices)
    return f"{count} device{'s' if count > 1 else ''}"


def _count(entries: int) -> str:
    return f"{entries} {'entry' if entries == 1 else 'entries'}"


def _specs(result: Result) -> Iterator[RunSpec]:
    match result:
        case Race():
            yield from (each.spec for each in result.entries)
        case Preflight():
            yield result.spec
        case _:
            return  # they do not say of which run


_SAME = ("recipe", "strategy", "devices", "batch_size", "precision", "settings", "interpreter")


def _is_alike(one: RunSpec, other: RunSpec) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _SAME)


def _path(number: int) -> Path:
    return paths.home() / FOLDER / f"{number}.json"
