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
        page.replay_wanted.connect(self._replay)
        page.fork_clicked.connect(self._fork)
        window.page_changed.connect(self._show_page)
        window.replay_step.triggered.connect(lambda: self.open_step(0))

    def show_info(self, info: RunInfo) -> None:
        """Note which run is watched."""
        self._info = info

    def open_step(self, step: int, info: RunInfo | None = None) -> None:
        """Replay a step of a run, and show the page; 0: the one that looks wrong.

        None: the watched run.
        """
        self._info = info or self._info
        if self._info is None:
            self._window.statusBar().showMessage("There is no run whose step could be replayed.")
            return
        self._show_run(self._info)
        self._window.show_page("step")
        self._replay(step)

    def _show_page(self, page: PageName) -> None:
        if page == "step" and self._info is not None and self._info.id != self._run:
            self._show_run(self._info)

    def _show_run(self, info: RunInfo) -> None:
        self._run = info.id
        name = info.spec.name or info.spec.recipe.rpartition("/")[2]
        self.page.show_run(info.id, f"{name} · {info.spec.strategy}")

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
        if self._is_ours(request) and isinstance(request, AskReplay):
            self.page.begin(request.step)
            self.page.show_doing(Doing("waits for another measurement"))

    def _begin(self, request: Request) -> None:
        if self._is_ours(request) and isinstance(request, AskReplay):
            self.page.begin(request.step)

    def _hear(self, request: Request, news: News) -> None:
        if self._is_ours(request) and isinstance(news, Doing):
            self.page.show_doing(news)

    def _show(self, request: Request, result: Result) -> None:
        if self._is_ours(request) and isinstance(result, Replay):
            self.page.show_replay(result)
            if result.kept:
                self.fork_wanted.emit(self._run, result.kept)

    def _refuse(self, request: Request, text: str) -> None:
        if self._is_ours(request):
            self.page.show_refusal(text)

    def _end(self, request: Request) -> None:
        if self._is_ours(request):
            self.page.end()
