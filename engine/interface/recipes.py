"""Recipes and scripts of this machine for an engine: on another machine they are sent before."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from engine.client import CannotStart
from engine.interface.engine import Engine
from engine.interface.sent_code import code_of, keep, script_code
from engine.interface.values import Code, NoAnswer
from engine.planning import requests as planning
from engine.planning.measuring_process import MeasuringEnd
from engine.planning.results import CheckResult, with_texts
from engine.spec import catalog, recipe_file
from engine.spec.recipe_copy import copied_recipe, recipe_of_run
from engine.spec.recipe_file import SCRIPT, RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from engine.system import paths


class SentFiles:
    """The files of a recipe that was sent: where they lie there, and what they are called here."""

    def __init__(self, code: Code, there: str, here: str) -> None:
        """`there` and `here`: the path of the recipe itself."""
        self.there = there
        folder, own = PurePosixPath(there).parent, Path(here).parent
        self._here = {str(folder / name): str(own / name) for name in code.modules}
        self._here[there] = here
        self._any = re.compile("|".join(map(re.escape, self._here)))

    def told(self, text: str) -> str:
        """Return a text of there with the names of here."""
        return self._any.sub(lambda match: self._here[match[0]], text)

    def place(self, where: str) -> str:
        """Return file and line of there as they are here; empty: it is no file that was sent."""
        file, colon, line = where.rpartition(":")
        return f"{self._here[file]}{colon}{line}" if file in self._here else ""


def send_recipe(
    engine: Engine, spec: RunSpec, tell: Callable[[Code], None] = lambda code: None
) -> tuple[RunSpec, SentFiles | None]:
    """Send the recipe or script of `spec` to `engine`, with the modules beside it that it imports.

    `tell` gets what was sent. Return the settings with which it runs there, and the files that were
    sent; None: the engine is of this machine, every Traindeck has the recipe, or it is a script.
    Raises CannotStart if it cannot be read here, and NoAnswer.
    """
    if not engine.machine:
        return spec, None
    if spec.is_script:
        return _send_script(engine, spec), None
    with _readable_here():
        code = code_of(catalog.recipe_of(spec))
    if code is None:
        return spec, None
    there = engine.keep_code(code)
    tell(code)
    return replace(spec, recipe=there), SentFiles(code, there, spec.recipe)


def _send_script(engine: Engine, spec: RunSpec) -> RunSpec:
    with _readable_here():
        code, at = script_code(spec.command, Path(spec.working_folder or Path(spec.recipe).parent))
    file = PurePosixPath(engine.keep_code(code))
    command = (*spec.command[:at], file.name, *spec.command[at + 1 :])
    return replace(spec, recipe=str(file), command=command, working_folder=str(file.parent))


@contextmanager
def _readable_here() -> Iterator[None]:
    """Let a recipe or script that cannot be read here be a problem of its field."""
    try:
        yield
    except NoAnswer:
        raise
    except (OSError, ValueError, catalog.UnknownName) as error:
        raise CannotStart([Problem("recipe", str(error))]) from error


def try_recipe(
    engine: Engine,
    spec: RunSpec,
    cancelled: threading.Event,
    seconds: float = planning.CHECK_SECONDS,
    tell: Callable[[Code], None] = lambda code: None,
) -> CheckResult:
    """Train one batch of the recipe of `spec`, of which nothing is kept.

    `tell` gets the recipe if it was sent. Places in the files that were sent are those of this
    machine in the result; `where` is empty if it is another file. Raises CannotStart if the recipe
    cannot be read here or cannot start there, and NoAnswer.
    """
    there, sent = send_recipe(engine, spec, tell)
    if problems := engine.check(there):
        raise CannotStart(problems)
    answers: list[planning.Answer] = []
    end = engine.measure(planning.AskCheck(there, seconds), answers.append, cancelled)
    found = CheckResult(spec.recipe, problem=end.sentence)
    match answers[-1:]:
        case [CheckResult() as result]:
            found = result
        case [planning.Refusal(text)]:
            found = replace(found, problem=text)
    if not engine.machine:
        return found
    if sent is None:
        return replace(found, recipe=spec.recipe, where="")
    return replace(
        found,
        recipe=spec.recipe,
        problem=sent.told(found.problem),
        where=sent.place(found.where),
        details=sent.told(found.details),
        notices=tuple(map(sent.told, found.notices)),
    )


def measure(
    engine: Engine,
    request: planning.Request,
    tell: Callable[[planning.Answer], None],
    cancelled: threading.Event,
    tell_sent: Callable[[Code], None] = lambda code: None,
) -> MeasuringEnd:
    """Measure something before a run; see `Engine.measure`.

    `tell_sent` gets the recipe if it was sent. Answers name the files that were sent as they are
    called here. Raises CannotStart if the recipe cannot be read here, OSError, and NoAnswer.
    """
    sent = None
    if specs := planning.specs_of(request):
        first, sent = send_recipe(engine, specs[0], tell_sent)
    if sent is None:
        return engine.measure(request, tell, cancelled)
    told, there = sent.told, first.recipe
    return engine.measure(
        planning.about(request, lambda spec: replace(spec, recipe=there)),
        lambda answer: tell(with_texts(answer, told)),
        cancelled,
    )


def recipe_of(engine: Engine, run: str, spec: RunSpec) -> RecipeInfo:
    """Return what the recipe or script of a run with the settings `spec` is.

    Of a run of another machine, its copy comes here. Raises NoAnswer.
    """
    if not engine.machine:
        return recipe_of_run(paths.run_folder(run), spec)
    path = Path(spec.recipe)
    if spec.is_script and path.suffix != ".py":
        name = recipe_file.script_name(path)
        return RecipeInfo(name=name, path=str(path), builtin=False, framework=SCRIPT)
    try:
        file = keep(engine.read_code(run))
    except ValueError as error:
        raise NoAnswer(f"{engine.machine}: {error}") from error
    if not spec.is_script:
        return copied_recipe(spec, file)
    found, name = recipe_file.read_script(file), recipe_file.script_name(path)
    return replace(found, name=name, path=str(path), copy=str(file))
