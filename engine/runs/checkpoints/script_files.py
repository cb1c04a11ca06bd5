"""The checkpoints that a script has written itself, and how its command goes on from them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import LARGEST_JSON, read_regular
from engine.runs.checkpoints import checkpoint_files
from engine.spec.run_spec import RunSpec

FILE_NAME = "script_files.json"
LATEST = "{latest}"
"""Stands for the newest of these files in `RunSpec.resume_arguments`."""

_MOST = 100
"""Files that are remembered: the newest ones."""


class ScriptFile(msgspec.Struct, frozen=True):
    """A file that a script has written while it trained."""

    path: str
    step: int
    """Optimizer steps done by then, counted from the start of training."""

    time: float
    """Seconds since the epoch."""

    is_state: bool = False
    """Whether a library goes on from it: a file of weights that is written later is none."""


class Continuation(NamedTuple):
    """How the command of a run starts once more."""

    words: tuple[str, ...]
    """What is added to the command."""

    first_step: int
    """The steps that are done; 0: it begins again."""

    file: str
    """The script's own file from which it goes on; empty: none is known."""


def note_file(run_folder: Path, file: ScriptFile) -> None:
    """Remember that the script has written `file`. Only rank 0 calls it. Raises OSError."""
    others = [other for other in script_files(run_folder) if other.path != file.path]
    newest = [*others, file][-_MOST:]
    write_atomically(run_folder / FILE_NAME, msgspec.json.encode(newest))


def script_files(run_folder: Path) -> list[ScriptFile]:
    """Return the remembered files, oldest first, whether they still exist or not."""
    try:
        content = read_regular(run_folder / FILE_NAME, LARGEST_JSON)
        return msgspec.json.decode(content, type=list[ScriptFile])
    except (OSError, ValueError, RecursionError):
        return []


def newest_file(run_folder: Path) -> ScriptFile | None:
    """Return the newest file that still exists, and from which a library goes on if one wrote any.

    None if there is none.
    """
    existing = [file for file in script_files(run_folder) if Path(file.path).exists()]
    states = [file for file in existing if file.is_state]
    return next(reversed(states or existing), None)


def continuation(run_folder: Path, spec: RunSpec) -> Continuation:
    """Return how the command goes on when its run is resumed without a checkpoint of ours."""
    words = resume_words(spec.resume_arguments)
    newest = _named_file(run_folder, spec, words) or newest_file(run_folder)
    if not words or (newest is None and any(LATEST in word for word in words)):
        return Continuation((), 0, "")
    if newest is None:
        return Continuation(words, 0, "")
    filled = tuple(word.replace(LATEST, newest.path) for word in words)
    return Continuation(filled, newest.step, newest.path)


def _named_file(run_folder: Path, spec: RunSpec, words: tuple[str, ...]) -> ScriptFile | None:
    """Return the remembered file that the words name, as in `--netG out/netG_epoch_3.pth`."""
    folder = Path(spec.working_folder or Path(spec.recipe).parent)
    named = {str(folder / word.rpartition("=")[2]) for word in words}
    found = (file for file in script_files(run_folder)[::-1] if file.path in named)
    return next((file for file in found if Path(file.path).exists()), None)


def resume_words(arguments: str) -> tuple[str, ...]:
    """Return the words of `RunSpec.resume_arguments`. Raises ValueError if a quote is open."""
    return tuple(shlex.split(arguments))


def resume_sentence(run_folder: Path, spec: RunSpec, *, by_calls: bool) -> str:
    """Return what resuming this run of a script means, in a sentence for the user."""
    if by_calls and checkpoint_files.folders(run_folder):
        return "Resume continues exactly where the newest checkpoint was saved."
    if by_calls:
        return "Resume starts the command again from the beginning: there is no checkpoint yet."
    again = "Resume starts the command again"
    if not spec.resume_arguments:
        return (
            f"{again} from the beginning, because it is not known how this script loads a "
            f"checkpoint. If it has an option for that, such as `--resume {LATEST}`, write it into "
            "Resume arguments (`--resume-with`)."
        )
    how = continuation(run_folder, spec)
    if not how.words:
        return (
            f"{again} from the beginning, without {spec.resume_arguments}: the script has saved no "
            "checkpoint yet, or its checkpoints were deleted."
        )
    words = shlex.join(how.words)
    if not how.file:
        return f"{again} with {words}. The script decides where it continues."
    if any(Path(how.file).name in word for word in how.words):
        return f"{again} with {words}: the script saved this checkpoint at step {how.first_step}."
    return (
        f"{again} with {words}. The newest file that the script saved is {Path(how.file).name}, "
        f"from step {how.first_step}."
    )
