"""A `uv` that makes environments in no time and without a network, also in other processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_UV = """#!{python} -IS
import os, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "venv":
    program = Path(words[-1], "bin", "python")
    program.parent.mkdir(parents=True)
    program.symlink_to("{own_python}")
    Path(words[-1], "lib", "python3.12", "site-packages").mkdir(parents=True)
    Path(words[-1], "pyvenv.cfg").write_text("version = 3.12.4\\n")
else:
    environment = Path(words[words.index("--python") + 1]).parents[1]
    for each in words[words.index("--python") + 2:]:
        name, _, version = each.replace(">=", "==").split(",")[0].partition("==")
        site = environment / "lib" / "python3.12" / "site-packages"
        (site / f"{{name.replace('-', '_')}}-{{version}}.dist-info").mkdir()
        (site / name).mkdir()
        (site / name / "version.py").write_text(f"__version__ = '{{version}}'\\n")
    print("Resolved", len(words), "packages", flush=True)
    exec(Path("{install}").read_text())
"""

_PYTHON = """#!{python} -IS
import json, os, sys
from pathlib import Path
if "probe.py" not in sys.argv[1]:
    os.execv("{python}", ["{python}", *sys.argv[1:]])
site = Path(os.environ["VIRTUAL_ENV"], "lib", "python3.12", "site-packages")
facts = {{"version": "3.12.4", "path": [str(site)]}}
if sys.argv[2] != "python":
    facts = {{"version": "2.13.0", "cuda": "", "gpus": 0}}
print(json.dumps(facts | {{"traindeck": sys.argv[2]}}))
"""


class UvDouble:
    """Stands first in `path`. An environment "has" what it was asked for; its Python runs
    everything with the packages of the tests."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        """The value of PATH with which it is found."""

        self._install = folder / "install.py"
        self._install.write_text("")
        own_python = folder / "python-of-environments"
        words = {"python": sys.executable, "own_python": own_python, "install": self._install}
        for file, text in ((folder / "uv", _UV), (own_python, _PYTHON)):
            file.write_text(text.format_map(words))
            file.chmod(0o755)

    def does(self, code: str) -> None:
        """Let each installation from now on do this, in the folder that is being made."""
        self._install.write_text(code)
