"""`desktop-entry`: puts Traindeck, with its icon, into the menu of applications of one user."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib import resources
from pathlib import Path

from engine.cli.output import Exit, Refused, out
from engine.files.atomic_file import write_atomically
from engine.processes.process import PROJECT
from engine.system.program import CONSOLE_SCRIPT, program_words

NAME = "traindeck"
"""Name of the entry, of the icon and of the window: a dock finds the entry by it."""

_MARK = "X-Traindeck=true"
"""Marks an entry that this program wrote."""

_ENTRY = """\
[Desktop Entry]
Type=Application
Version=1.0
Name=Traindeck
GenericName=Training dashboard
Comment=Train neural networks on your GPUs and see it live
Exec={command}
TryExec={program}
Icon={name}
Terminal=false
Categories=Science;ArtificialIntelligence;
Keywords=GPU;PyTorch;TensorFlow;machine learning;
StartupNotify=true
StartupWMClass=Traindeck
{mark}
"""


def desktop_entry(*, remove: bool) -> Exit:
    """Add the entry, or remove it. Raises Refused, OSError."""
    return uninstall() if remove else install()


def install() -> Exit:
    """Write the entry and the icon. Raises Refused where there are no desktop entries, OSError."""
    entry, icon = _files()
    _check_owner(entry)
    program, *arguments = _command()
    # GNOME looks for the program before it reads `%%` as a percent sign.
    wrapper = ["env"] if "%" in program else []
    text = _ENTRY.format(
        command=" ".join(map(_quoted, [*wrapper, program, *arguments])),
        program=_escaped(program),
        name=NAME,
        mark=_MARK,
    )
    image = resources.files("resources").joinpath(f"{NAME}.svg").read_bytes()
    for file, data in ((icon, image), (entry, text)):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, data)
    out().print(f"Traindeck is in the menu of applications: {entry}", soft_wrap=True)
    return Exit.DONE


def uninstall() -> Exit:
    """Delete the entry and the icon. Raises Refused where there is none, OSError."""
    entry, icon = _files()
    _check_owner(entry)
    files = [file for file in (entry, icon) if file.exists()]
    if not files:
        raise Refused("Traindeck is not in the menu of applications.")
    for file in files:
        file.unlink()
    out().print("Traindeck is no longer in the menu of applications.")
    return Exit.DONE


def _files() -> tuple[Path, Path]:
    """Return the paths of the entry and of the icon. Raises Refused."""
    if sys.platform in ("win32", "darwin"):
        raise Refused("Desktop entries are for Linux and BSD desktops: this system has none.")
    chosen = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not chosen.is_absolute():
        home = Path(os.environ.get("HOME", Path.home()))
        if not home.is_absolute():
            raise Refused("HOME is not an absolute path: set HOME or XDG_DATA_HOME.")
        chosen = home / ".local" / "share"
    icons = chosen / "icons" / "hicolor" / "scalable" / "apps"
    return chosen / "applications" / f"{NAME}.desktop", icons / f"{NAME}.svg"


def _check_owner(entry: Path) -> None:
    """Raise Refused if `entry` exists and this program did not write it."""
    if entry.exists() and not (entry.is_file() and _MARK in entry.read_text(errors="replace")):
        raise Refused(f"{entry} was not written by Traindeck: move or delete it first.")


def _command() -> list[str]:
    """Return the command of the window: the console script or `main.py`, as it was called."""
    if program_words() == [CONSOLE_SCRIPT]:
        script = shutil.which(CONSOLE_SCRIPT, path=str(Path(sys.executable).parent))
        return [script] if script else [sys.executable, "-m", "main"]
    return [sys.executable, str(PROJECT / "main.py")]


def _quoted(argument: str) -> str:
    """Return one argument of an Exec line, as the Desktop Entry Specification quotes it."""
    inner = re.sub(r'(["`$\\])', r"\\\1", argument).replace("%", "%%")
    return _escaped(f'"{inner}"' if re.search(r"[^\w@+=:,./-]", argument, re.ASCII) else inner)


def _escaped(text: str) -> str:
    """Return `text` as a value of type string, in which a backslash begins an escape sequence."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
