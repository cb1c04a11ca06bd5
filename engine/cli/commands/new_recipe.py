"""`new-recipe`: writes a commented recipe that trains as it is, for the user to change."""

from __future__ import annotations

import shlex
from pathlib import Path

from engine.cli.output import Exit, Refused, err, out, print_json
from engine.spec.catalog import TEMPLATES
from engine.system.program import call


def new_recipe(name: str, kind: str, *, json: bool) -> Exit:
    """Write a recipe of `kind` to the file `name`. Raises Refused, also if the file exists."""
    path = Path(name).expanduser()
    if path.suffix != ".py":
        raise Refused(f"A recipe is a Python file: name it {path.name}.py, not {path.name}.")
    shown = shlex.quote(str(path))
    text = (TEMPLATES / f"{kind}.py").read_text("utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Refused(f"{path} exists already: choose another name, or remove it.") from None
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror or error}.") from None
    if json:
        print_json({"file": str(path.absolute()), "for": kind})
    else:
        out().print(str(path), soft_wrap=True)
    err().print(
        f"Put your model and data into it. `{call(f'check {shown}')}` tries it on one batch, and "
        f"`{call(f'train --recipe {shown}')}` trains it.",
        soft_wrap=True,
    )
    return Exit.DONE
