"""The overview names the run from which a run goes on, and its branches."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

from engine.runs.run_index import RunIndex
from engine.runs.run_info import RunInfo
from gui.overview.branches_section import BranchesSection
from tests.gui.run_list.run_lists import record_branches


def test_the_overview_leads_to_the_parent_and_to_the_branches(qapp: QApplication) -> None:
    record_branches("", "1", "1", "99")
    infos: list[RunInfo] = RunIndex().runs()
    section, opened = BranchesSection(), list[str]()
    section.run_wanted.connect(opened.append)
    section.show_runs("2", infos)
    (parent,) = section.buttons
    assert all(text in parent.text() for text in ("300", "#1"))
    parent.click()
    section.show_runs("1", infos)
    for button in section.buttons:
        button.click()
    section.show_runs("4", infos)
    section.buttons[0].click()
    assert opened == ["1", "3", "2", "99"]
    section.show_runs("1", [infos[-1]])
    assert section.isHidden()
    section.deleteLater()
