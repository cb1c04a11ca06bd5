"""Pictures of the window in all its states, from recorded runs, without a screen."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from itertools import groupby, product
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from engine.cli.output import Exit, Refused
from engine.system import paths

State = Literal[
    "running",
    "finished",
    "failed",
    "compare",
    "runs",
    "first-start",
    "gpus",
    "gpu",
    "media",
    "script",
    "machines",
    "cluster",
    "add-machine",
    "overview",
    "branches",
    "queued",
    "starting",
    "paused",
    "stopping",
    "hung",
    "lost-gpu",
    "form",
    "form-faults",
    "compare-many",
    "groups",
    "sweep",
    "sweep-dialog",
    "doctor",
    "log",
    "events",
    "export",
    "rail",
    "column",
    "race",
    "race-running",
    "race-empty",
    "step",
    "step-running",
    "parting",
    "parting-running",
    "not-tried",
    "batch-size",
]
ThemeName = Literal["dark", "light"]

SCALES = {
    (1280, 800): 1.0,
    (1366, 768): 1.0,
    (900, 700): 1.0,
    (640, 800): 1.0,
    (1920, 1080): 1.0,
    (1920, 1200): 1.5,
    (3840, 2160): 2.0,
}
"""Size in pixels, and the scale. 900 x 700 and 640 x 800 are half a screen, 1366 x 768 a laptop.
At 200 %, a screen of 3840 x 2160 has the logical size 1920 x 1080; at 150 %, the 1920 x 1200 of a
laptop have the logical size 1280 x 800."""


class Picture(NamedTuple):
    """One picture."""

    state: State
    theme: ThemeName
    size: tuple[int, int]
    """Pixels."""

    @property
    def name(self) -> str:
        """Such as `running-dark-1280x800`."""
        width, height = self.size
        return f"{self.state}-{self.theme}-{width}x{height}"

    @property
    def scale(self) -> float:
        """Pixels per logical pixel."""
        return SCALES.get(self.size, 1.0)

    @property
    def logical_size(self) -> tuple[int, int]:
        """The size of the window for Qt."""
        return round(self.size[0] / self.scale), round(self.size[1] / self.scale)


OF_ONE_SIZE: dict[State, tuple[int, int]] = {
    "gpu": (1280, 800),
    "sweep-dialog": (860, 600),
    "doctor": (680, 560),
    "export": (560, 320),
    "add-machine": (560, 300),
    "column": (900, 700),
    "batch-size": (560, 420),
}
"""States that have one size on every screen: dialogs, and the column over a narrow page."""

PICTURES = [
    Picture(state, theme, size)
    for state, theme in product(get_args(State), get_args(ThemeName))
    for size in ([OF_ONE_SIZE[state]] if state in OF_ONE_SIZE else SCALES)
]
"""All pictures; those of one state follow each other."""


def save_pictures(folder: Path, pattern: str = "*") -> int:
    """Save the pictures whose names match `pattern` as PNG in `folder`, and return the exit code.

    The window gets a temporary data folder and made-up devices, so that no run, setting or device
    of this machine is touched or shown. Raises Refused, OSError.
    """
    wanted = [picture for picture in PICTURES if fnmatchcase(picture.name, pattern)]
    if not wanted:
        raise Refused(
            f"No picture is called {pattern}: their names are such as {PICTURES[0].name}, and `*` "
            "stands for anything."
        )
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    by_scale = sorted(wanted, key=lambda picture: picture.scale)
    with tempfile.TemporaryDirectory(prefix="traindeck-") as home:
        for scale, pictures in groupby(by_scale, key=lambda picture: picture.scale):
            _draw(folder, [picture.name for picture in pictures], scale, Path(home))
    return Exit.DONE


def _draw(folder: Path, names: list[str], scale: float, home: Path) -> None:
    """Draw the pictures of one scale in a new process, because Qt reads its scale once."""
    environment = os.environ | {
        paths.HOME_VARIABLE: str(home),
        "QT_QPA_PLATFORM": "offscreen",
        "QT_SCALE_FACTOR": str(scale),
    }
    command = [sys.executable, "-m", "tools.screenshots.drawing", str(folder), *names]
    root = Path(__file__).parents[2]
    # Qt prints remarks about its offscreen platform; they matter only if the process fails.
    result = subprocess.run(
        command, cwd=root, env=environment, stderr=subprocess.PIPE, text=True, check=False
    )
    if result.returncode:
        why = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
        raise OSError(f"the pictures could not be drawn: {why}")
