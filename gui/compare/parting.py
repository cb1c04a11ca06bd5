"""Has the engine find where the two compared runs part, and shows what it answers."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.planning.requests import AskDivergence, Request
from engine.planning.results import Divergence, Doing, News, Result
from gui.bridge.machines.machines import place_of
from gui.bridge.planning.planning import Planning
from gui.compare.comparison import Comparison


class Parting(QObject):
    """Knows the pair of runs that was asked about last: its answer is shown while the comparison
    shows that pair."""

    step_wanted = Signal(object, int)
    """RunInfo, and the step of it to look into."""

    def __init__(self, planning: Planning, comparison: Comparison) -> None:
        super().__init__(comparison)
        self._planning, self._comparison = planning, comparison
        self._card = comparison.parting
        self._asked: tuple[str, ...] = ()
        self._request: AskDivergence | None = None
        planning.waits.connect(self._wait)
        planning.begun.connect(self._begin)
        planning.news.connect(self._hear)
        planning.found.connect(self._show)
        planning.refused.connect(self._refuse)
        planning.ended.connect(self._end)
        comparison.chips.part_clicked.connect(self.find)
        comparison.pair_changed.connect(self._show_card)
        self._card.stop_clicked.connect(lambda: planning.stop(AskDivergence))
        self._card.close_clicked.connect(self._hide)
        self._card.step_clicked.connect(self._open_step)

    def find(self) -> None:
        """Find where the two compared runs part."""
        pair = self._comparison.pair()
        if not pair:
            return
        ids = tuple(info.id for info in pair)
        (machine, one), (elsewhere, other) = map(place_of, ids)
        if machine == elsewhere:
            request = AskDivergence(one, other, machine=machine)
            self.expect(request, ids)
            self._planning.ask(request)
        else:
            self.expect(None, ids)
            self._card.show_refusal(
                f"Run {ids[0]} and run {ids[1]} are on different machines: only runs of one "
                "machine are trained again beside each other."
            )

    def expect(self, request: AskDivergence | None, ids: tuple[str, ...]) -> None:
        """Show the answer to `request` beside the runs that the window calls `ids`."""
        self._request, self._asked = request, ids
        self._show_card()

    def _show_card(self) -> None:
        pair = tuple(info.id for info in self._comparison.pair())
        self._card.setVisible(bool(pair) and set(pair) == set(self._asked))

    def _hide(self) -> None:
        self._asked = ()
        self._show_card()

    def _open_step(self, place: int, step: int) -> None:
        for info in self._comparison.pair():
            if info.id == self._asked[place]:
                self.step_wanted.emit(info, step)

    def _is_ours(self, request: Request) -> bool:
        return isinstance(request, AskDivergence) and request == self._request

    def _wait(self, request: Request) -> None:
        if self._is_ours(request):
            self._card.begin(self._asked)
            self._card.show_doing(Doing("waits for another measurement"))

    def _begin(self, request: Request) -> None:
        if self._is_ours(request):
            self._card.begin(self._asked)

    def _hear(self, request: Request, news: News) -> None:
        if self._is_ours(request) and isinstance(news, Doing):
            self._card.show_doing(news)

    def _show(self, request: Request, result: Result) -> None:
        if self._is_ours(request) and isinstance(result, Divergence):
            self._card.show_found(result, self._asked)

    def _refuse(self, request: Request, text: str) -> None:
        if self._is_ours(request):
            self._card.show_refusal(text)

    def _end(self, request: Request) -> None:
        if self._is_ours(request):
            self._card.end()
