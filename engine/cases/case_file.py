"""The format of a failure file: a ZIP of plain files, with a manifest and a SHA-256 of each."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.files.format_version import FormatVersion
from engine.files.regular_file import read_regular
from engine.scripts.code_secrets import without_secrets
from engine.scripts.secrets import HIDDEN, redacted, shown_setting
from engine.system.program import version

NAME = "failure.tdcase"
SUFFIX = ".tdcase"
MOST_BYTES = 10_000_000
"""The size of the largest file that is written."""

LARGEST_READ = 2 * MOST_BYTES
"""Bytes of a file that is opened."""

FORMAT = FormatVersion(1, 0)
"""`docs/compatibility.md` lists the versions, and when to increase it."""

MANIFEST = "manifest.json"
_ROOM = 200_000
"""Bytes that are kept free for the manifest and the directory of the ZIP."""

_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Others may ask for gigabytes before the first byte."""

_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, MemoryError, RuntimeError)
_LARGEST_FILE = 4 * MOST_BYTES
_LARGEST_CONTENT = 12 * MOST_BYTES
_MOST_FILES = 2_000
_PLACE = re.compile(r"[\w+-][\w.+ -]{0,120}(/[\w+-][\w.+ -]{0,120}){0,12}")


class UnfitCase(Exception):
    """This is no failure file that can be opened; the text is a sentence."""


class Member(msgspec.Struct, frozen=True):
    """One file of a case."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a failure file says of itself."""

    format: str
    traindeck: str
    """The version that has written it."""

    run: str
    """The number of the run on its machine."""

    title: str
    state: str
    reason: str
    written: float
    """Seconds since the epoch."""

    files: dict[str, Member]
    left_out: tuple[str, ...] = ()
    """What has no room, or could not be read, in sentences."""


class CaseWriter:
    """Puts a failure file together in memory, within its size and without secrets."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets`: values that no text may hold, beside those that look like one."""
        self._secrets = tuple(secrets)
        self._buffer = io.BytesIO()
        self._zip = zipfile.ZipFile(self._buffer, "w", zipfile.ZIP_DEFLATED)
        self._members: dict[str, Member] = {}
        self.left_out: list[str] = []

    def add(self, name: str, body: bytes) -> bool:
        """Add a file of numbers, if it has room; return whether it has."""
        if not is_place(name) or name in self._members or len(self._members) >= _MOST_FILES:
            self.left_out.append(f"{name}: its name cannot be kept.")
            return False
        left = MOST_BYTES - _ROOM - self._buffer.tell()
        if len(body) > left and (len(body) > _LARGEST_FILE or len(zlib.compress(body)) > left):
            self.left_out.append(f"{name} ({len(body):,} bytes) has no room.")
            return False
        self._zip.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
        self._members[name] = Member(len(body), hashlib.sha256(body).hexdigest())
        return True

    def add_text(self, name: str, text: str) -> bool:
        """Add a text without its secrets."""
        return self.add(name, self.clean(text).encode(errors="backslashreplace"))

    def add_code(self, name: str, text: str) -> bool:
        """Add a file of Python without its secrets; it stays one that can be imported."""
        return self.add(name, self._clean_code(text).encode(errors="backslashreplace"))

    def add_value(self, name: str, value: Any) -> bool:
        """Add a value as JSON or MessagePack, with all its texts cleaned."""
        encode = msgspec.json.encode if name.endswith(".json") else msgspec.msgpack.encode
        return self.add(
            name, encode(self._cleaned(msgspec.to_builtins(value, builtin_types=(bytes,))))
        )

    def clean(self, text: str) -> str:
        """Return `text` without secrets."""
        return redacted(text, self._secrets)

    def finish(self, **told: Any) -> bytes:
        """Return the whole file; `told`: fields of its manifest."""
        manifest = Manifest(
            format=str(FORMAT),
            traindeck=version(),
            files=self._members,
            left_out=tuple(self.left_out[:100]),
            **told,
        )
        body = msgspec.json.format(msgspec.json.encode(manifest))
        self._zip.writestr(zipfile.ZipInfo(MANIFEST), body, zipfile.ZIP_DEFLATED)
        self._zip.close()
        return self._buffer.getvalue()

    def _clean_code(self, text: str) -> str:
        """Return code without secrets. Names and numbers stay, but for a number that is a secret by
        its name: `api_keys = []` is none."""
        try:
            return without_secrets(text, self.clean, HIDDEN)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # no code
            return self.clean(text)

    def _cleaned(self, value: Any) -> Any:
        match value:
            case str():
                return self.clean(value)
            case dict():
                return {self._cleaned(key): self._entry(key, each) for key, each in value.items()}
            case list() | tuple():
                return [self._cleaned(each) for each in value]
        return value

    def _entry(self, name: Any, value: Any) -> Any:
        """Return a named value: the name may say that it is a secret."""
        is_single = isinstance(value, str | int | float) and isinstance(name, str)
        return self._cleaned(shown_setting(name, value) if is_single else value)


def is_place(name: str) -> bool:
    """Whether `name` is a relative path that stays where it is put, on every system."""
    return bool(_PLACE.fullmatch(name)) and not any(
        part.endswith((".", " ")) for part in name.split("/")
    )


def read_case(file: Path) -> tuple[Manifest, Mapping[str, bytes]]:
    """Return the manifest and all files of a failure file, each checked. Raises UnfitCase, OSError.

    Nothing of it is executed, and no name in it is used as one of this machine.
    """
    try:
        with zipfile.ZipFile(
            io.BytesIO(read_regular(file, 2 * MOST_BYTES, follow_links=True))
        ) as z:
            return _checked(file.name, z)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        MemoryError,
        RuntimeError,
    ) as error:
        reason = str(error)[:200] or "it does not fit in memory"
        raise UnfitCase(f"{file.name} is damaged, or no failure file: {reason}.") from error


def _checked(name: str, content: zipfile.ZipFile) -> tuple[Manifest, Mapping[str, bytes]]:
    infos = {info.filename: info for info in content.infolist()}
    sizes = [info.file_size for info in infos.values()]
    if len(sizes) > _MOST_FILES + 1 or max(sizes, default=0) > _LARGEST_FILE:
        raise UnfitCase(f"{name} holds more, or larger, files than a failure file has.")
    if sum(sizes) > _LARGEST_CONTENT or len(infos) != len(content.infolist()):
        raise UnfitCase(f"{name} holds more than a failure file has room for.")
    if any(info.compress_type not in _COMPRESSIONS for info in content.infolist()):
        raise UnfitCase(f"{name} is compressed in a way that no failure file is.")
    if MANIFEST not in infos:
        raise UnfitCase(f"{name} is no failure file of Traindeck: it has no {MANIFEST}.")
    try:
        manifest = msgspec.json.decode(_read(content, infos[MANIFEST]), type=Manifest)
        found = FormatVersion.from_text(manifest.format)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnfitCase(f"The manifest of {name} is damaged: {str(error)[:200]}.") from error
    if reason := found.why_unreadable(name, FORMAT):
        raise UnfitCase(f"{reason}.")
    files = {}
    for place, member in manifest.files.items():
        if not is_place(place) or place not in infos:
            raise UnfitCase(f"{name} is damaged: its file {place[:100]!r} is missing.")
        body = _read(content, infos[place])
        if len(body) != member.size or hashlib.sha256(body).hexdigest() != member.sha256:
            raise UnfitCase(f"{name} is damaged: its file {place} is not what was written.")
        files[place] = body
    return manifest, files


def _read(content: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the content of a file, which may be larger than it says."""
    with content.open(info) as file:
        body = file.read(_LARGEST_FILE + 1)
    if len(body) > _LARGEST_FILE:
        raise UnfitCase(f"{info.filename[:100]!r} is larger than a file of a failure file.")
    return body
