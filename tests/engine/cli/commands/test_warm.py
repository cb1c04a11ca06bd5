"""`warm`: the switch for frameworks that stay loaded."""

from __future__ import annotations

import json

import pytest

from engine.templates import client
from main import main
from tests.support.template_double import TemplateDouble


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> TemplateDouble:
    return TemplateDouble(monkeypatch)


def test_it_switches_and_says_what_holds(
    templates: TemplateDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, is_on in (([], True), (["off"], False), ([], False), (["on"], True)):
        assert main(["warm", *arguments]) == 0
        assert templates.is_on is is_on
        assert ("do not stay loaded" in capsys.readouterr().out) is not is_on
        assert main(["warm", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"is_on": is_on}


def test_a_switch_that_cannot_be_stored_is_told(
    templates: TemplateDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*, on: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(client, "switch", full)
    assert main(["warm", "off"]) == 1
    assert "could not be stored" in capsys.readouterr().err
