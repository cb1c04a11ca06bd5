"""Recoloured icons as resources of Qt: they are in memory, so no program can delete them."""

from __future__ import annotations

import struct

from PySide6.QtCore import QResource

_VERSION = 1
_FOLDER, _FILE = 2, 0
_ANY_LANGUAGE = 1
_HEADER = struct.Struct(">4s4I")
_FOLDER_NODE = struct.Struct(">IHII")
_FILE_NODE = struct.Struct(">IHHHI")
_ROOT = "/icons"

_kept: dict[str, bytes] = {}
"""Qt reads from here as long as the program runs: nothing may be taken out."""


def add_icon(name: str, content: str) -> str:
    """Make `content` a file of Qt, and return its path; the same one if there is one of this name.

    Raises OSError if Qt does not take it.
    """
    if name not in _kept:
        resource = _resource(name, content.encode())
        if not QResource.registerResourceData(resource, _ROOT):
            raise OSError(f"Qt cannot use the icon {name}.")
        _kept[name] = resource
    return f":{_ROOT}/{name}"


def _resource(name: str, content: bytes) -> bytes:
    """Return a folder with one file in the format of Qt's `rcc`: numbers are big-endian, a folder
    has the number of its files and the place of the first one."""
    names = struct.pack(">HI", len(name), _hash(name)) + name.encode("utf-16-be")
    tree = _FOLDER_NODE.pack(0, _FOLDER, 1, 1) + _FILE_NODE.pack(0, _FILE, 0, _ANY_LANGUAGE, 0)
    data = struct.pack(">I", len(content)) + content
    tree_at = _HEADER.size
    data_at = tree_at + len(tree)
    names_at = data_at + len(data)
    return _HEADER.pack(b"qres", _VERSION, tree_at, data_at, names_at) + tree + data + names


def _hash(name: str) -> int:
    """Return the number by which Qt finds a name."""
    found = 0
    for letter in name:
        found = (found << 4) + ord(letter)
        found ^= (found & 0xF0000000) >> 23
        found &= 0x0FFFFFFF
    return found
