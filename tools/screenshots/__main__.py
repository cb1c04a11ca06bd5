"""Saves pictures of the window with recorded runs: `python -m tools.screenshots DIR`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.cli.errors import report_errors
from tools.screenshots.pictures import save_pictures

parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
parser.add_argument("folder", metavar="DIR", type=Path, help="where to save them")
parser.add_argument(
    "--only", default="*", metavar="PATTERN", help="such as 'running-*' or '*-1280x800'"
)
options = parser.parse_args()
sys.exit(report_errors(lambda: save_pictures(options.folder, options.only)))
