"""Opens the page Step for a step of a run, and has the step replayed."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.planning.requests import AskReplay, Request
from engine.planning.results import Doing, News, Replay, Result
from engine.runs.run_info import RunInfo
from gui.bridge.machines.machines import place_of
from gui.bridge.planning.planning import Planning
from gui.step.step_page import StepPage
from gui.window.main_window import MainWindow
from gui.window.pages import PageName

MOST_ANSWERS = 20
"""Replays that are kept until the window closes, of all runs."""


class StepController(QObject):
    """Knows the watched run, of whose plots a step is chosen."""

    fork_wanted = Signal(str, str)
    """Id of a run, and the name of its checkpoint from which a new run goes on."""

    def __init__(self, planning: Planning, window: MainWindow) -> None:
        super().__init__(window)
        self._planning, self._window = planning, window
        self._info: RunInfo | None = None
        self._run = ""
        """The run that the page is about."""

        self._watched = ""
        self._asked: AskReplay | None = None
        """What is replayed now, or waits."""

        self._answers: dict[tuple[str, int], Replay] = {}
        """By run and step; the one that was shown last is at the end."""

        self.page = page = StepPage()
        window.parts.pages["step"].fill(page)
        planning.waits.connect(self._wait)
        planning.begun.connect(self._begin)
        planning.news.connect(self._hear)
        planning.found.connect(self._show)
        planning.refused.connect(self._refuse)
        planning.ended.connect(self._end)
        page.back_clicked.connect(lambda: window.show_page("run"))
        page.stop_clicked.connect(lambda: planning.stop(AskReplay))
        page.replay_wanted.connect(self._choose)
        page.fork_clicked.connect(self._fork)
        window.page_changed.connect(self._show_page)
        window.replay_step.triggered.connect(lambda: self.open_step(0))

    def show_info(self, info: RunInfo) -> None:
        """Note which run is watched; the page goes over to another one."""
        is_other, self._watched = info.id != self._watched, info.id
        self._info = info
        if is_other and self._window.page == "step":
            self._show_page("step")

    def open_step(self, step: int, info: RunInfo | None = None) -> None:
        """Show the page with a step of a run, which is replayed first unless it was; 0: the one
        that looks wrong.

        None: the watched run.
        """
        self._info = info or self._info
        if self._info is None:
            self._window.statusBar().showMessage("There is no run whose step could be replayed.")
            return
        self._show_run(self._info)
        self._window.show_page("step")
        self._open(step)

    def _show_page(self, page: PageName) -> None:
        if page == "step" and self._info is not None and self._info.id != self._run:
            self._show_run(self._info)

    def _show_run(self, info: RunInfo) -> None:
        if info.id == self._run:
            return
        self._run = info.id
        name = info.spec.name or info.spec.recipe.rpartition("/")[2]
        last = [found for (run, _), found in self._answers.items() if run == info.id]
        facts = f"{name} · {info.spec.strategy}"
        self.page.show_run(info.id, facts, last[-1] if last else None, info.status.step)
        if self._asked is not None:
            self._begin(self._asked)

    def _choose(self, step: int) -> None:
        """Replay the step that is shown once more, else open the one that was chosen."""
        if step == self.page.shown_step:
            self._replay(step)
        else:
            self._open(step)

    def _open(self, step: int) -> None:
        """Show the answer about a step, or have it replayed."""
        found = self._answers.get((self._run, step))
        if found is None or self.page.is_running:
            self._replay(step)
        else:
            self._keep(self._run, found)
            self.page.show_replay(found)

    def _keep(self, run: str, found: Replay) -> None:
        self._answers.pop((run, found.step), None)
        self._answers[run, found.step] = found
        if len(self._answers) > MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def _replay(self, step: int) -> None:
        machine, run = place_of(self._run)
        self._planning.ask(AskReplay(run, step, machine=machine))

    def _fork(self, step: int) -> None:
        """Give the run a checkpoint of the step, and then let the user change the settings."""
        machine, run = place_of(self._run)
        self._planning.ask(AskReplay(run, step, keeps_checkpoint=True, machine=machine))

    def _is_ours(self, request: Request) -> bool:
        if not isinstance(request, AskReplay):
            return False
        return (request.machine, request.run) == place_of(self._run)

    def _wait(self, request: Request) -> None:
        self._begin(request)
        if self._is_ours(request):
            self.page.show_doing(Doing("waits for another measurement"))

    def _begin(self, request: Request) -> None:
        if isinstance(request, AskReplay):
            self._asked = request
            if self._is_ours(request):
                self.page.begin(request.step)

    def _hear(self, request: Request, news: News) -> None:
        if self._is_ours(request) and isinstance(news, Doing):
            self.page.show_doing(news)

    def _show(self, request: Request, result: Result) -> None:
        if not (isinstance(request, AskReplay) and isinstance(result, Replay)):
            return
        self._keep(":".join(filter(None, (request.machine, request.run))), result)
        if self._is_ours(request):
            self.page.show_replay(result)
            if result.kept:
                self.fork_wanted.emit(self._run, result.kept)

    def _refuse(self, request: Request, text: str) -> None:
        if self._is_ours(request):
            self.page.show_refusal(text)

    def _end(self, request: Request) -> None:
        if request == self._asked:
            self._asked = None
        if self._is_ours(request):
            self.page.end()
