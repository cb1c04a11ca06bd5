"""The words at the right end of the status bar: which framework is loaded for the next run."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from engine.system.units import byte_size
from engine.templates.kinds import KINDS
from engine.templates.protocol import TemplateState
from gui.bridge.template_keeper import TemplateStatus
from gui.style.formatting import capitalized
from gui.widgets.plain_text import Label, set_wrapped_tip

IDLE_MINUTES = 15
"""After this time without a worker, a template ends."""


class TemplateLabel(Label):
    """Shows one template in the text, and all in the tooltip; hidden where there is none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.hide()

    def show_status(self, status: TemplateStatus) -> None:
        """Show the newest status of the templates."""
        text = self._text(status)
        self.setText(text)
        self.setAccessibleName(f"For the next run: {text}")
        facts = "\n".join(self._lines(status))
        set_wrapped_tip(self, facts)
        self.setAccessibleDescription(facts)
        self.setVisible(bool(text))

    def _text(self, status: TemplateStatus) -> str:
        """Return what is loaded for the form, or else any framework that is loaded."""
        if not status.is_on:
            return ""
        needed = [each for each in status.states if status.kind and each.kind == status.kind.name]
        if status.kind and status.problem and not needed:
            return f"{status.kind.title} not loaded"
        for state in (*needed, *status.states):
            return self._condition(state)
        return ""

    def _condition(self, state: TemplateState) -> str:
        framework = KINDS[state.kind].title
        if state.problem:
            return f"{framework} not loaded"
        return f"{framework} ready" if state.is_ready else f"loading {framework} …"

    def _lines(self, status: TemplateStatus) -> list[str]:
        lines = ["A run starts at once if its framework is loaded in advance."]
        for state in status.states:
            facts = (
                f"{self._condition(state)} · {byte_size(state.memory)} · pid {state.pid} · "
                f"workers: {state.workers}"
            )
            lines += [capitalized(facts), *([f"{state.problem}."] if state.problem else [])]
        if status.kind and status.problem:
            lines.append(f"{status.kind.title}: {status.problem}.")
        lines.append(
            f"Each ends after {IDLE_MINUTES} minutes without a run. The menu Run switches this off."
        )
        return lines
