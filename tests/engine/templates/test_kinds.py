"""The kinds of templates that there are."""

from __future__ import annotations

import importlib.util
import pkgutil

import pytest

from engine.templates.differences import read_at_import
from engine.templates.kinds import KINDS, SHARED_ENVIRONMENT, TemplateKind, everything, kind_for


def test_each_framework_has_its_kind() -> None:
    assert kind_for("torch", "torch") is KINDS["torch"]
    assert kind_for("torch", "keras") is KINDS["keras-torch"]
    assert kind_for("tf", "keras") is kind_for("tf", "tf") is KINDS["tensorflow"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_the_modules_of_a_kind_exist(kind: TemplateKind) -> None:
    """Without their import, which would load the frameworks here."""
    own = [name for name in kind.modules if name.startswith("engine.")]
    named = [kind.after_fork.partition(":")[0], kind.shown.partition(":")[0], kind.program]
    for module in (*own, *named):
        assert importlib.util.find_spec(module), module


def test_a_kind_without_a_filter_shows_everything() -> None:
    shown = pkgutil.resolve_name(TemplateKind("a", "A", (), {}, "").shown)
    assert shown is everything
    assert shown("text\n", {}) == "text\n"


def test_what_all_workers_share_is_in_the_template_too() -> None:
    """Otherwise each request would be refused."""
    for kind in KINDS.values():
        assert read_at_import(kind.environment) == kind.environment
    assert read_at_import(SHARED_ENVIRONMENT).keys() == {
        name for name in SHARED_ENVIRONMENT if name != "CUDA_DEVICE_ORDER"
    }
