"""The look: colours, palette, style sheet, fonts, icons, and how the theme is chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QFile, QIODevice, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontInfo, QFontMetrics, QPalette
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from gui.style import theme as look
from gui.style.theme import DARK, LIGHT, Theme, ThemeController
from tests.gui.conftest import Patch

ICONS = look.RESOURCES / "icons"
BOTH = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)


@pytest.fixture
def controller(qapp: QApplication) -> Iterator[ThemeController]:
    yield ThemeController(qapp)
    qapp.setStyleSheet("")
    qapp.setPalette(QPalette())


class Dressed(QLabel):
    """Counts how often it gets a style."""

    times = 0

    def changeEvent(self, event: QEvent) -> None:
        self.times += event.type() is QEvent.Type.StyleChange
        super().changeEvent(event)


def test_what_is_made_in_style_later_gets_its_style_once(controller: ThemeController) -> None:
    """Each part of a window is put into another one: each time, Qt would style everything in it."""

    def nested() -> tuple[Dressed, QLabel]:
        label = Dressed("Loss")
        label.setObjectName("ttl")
        whole: QLabel = label
        for _ in range(5):
            around = QLabel()
            whole.ensurePolished()
            whole.setParent(around)
            whole = around
        return label, whole

    usual, _usual_window = nested()
    with controller.style_later():
        late, _late_window = nested()
    late.ensurePolished()
    assert late.times < usual.times / 2
    assert late.font() == usual.font() != QLabel().font()


def test_the_style_comes_back_after_a_failure(controller: ThemeController) -> None:
    sheet = controller.app.styleSheet()
    with pytest.raises(RuntimeError), controller.style_later():
        raise RuntimeError
    assert controller.app.styleSheet() == sheet


def brightness(colour: str) -> float:
    """Relative luminance as in the web's contrast rules."""
    channels = [channel / 255 for channel in QColor(colour).getRgb()[:3]]  # type: ignore[index]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    red, green, blue = linear
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def contrast(one: str, other: str) -> float:
    dark, light = sorted((brightness(one), brightness(other)))
    return (light + 0.05) / (dark + 0.05)


@BOTH
@pytest.mark.parametrize("behind", ["bg", "card", "card2", "selected"])
def test_everything_that_must_be_read_stands_out(theme: Theme, behind: str) -> None:
    """4.5:1 for text, 3:1 for what is drawn; on cards, where most of it stands, far more."""
    ground = getattr(theme, behind)
    assert contrast(theme.text, ground) > 12
    said = (theme.muted, theme.accent, theme.ok, theme.warn, theme.bad, theme.done, theme.lost)
    assert min(contrast(colour, ground) for colour in said) >= 4.5
    assert contrast(theme.faint, ground) < contrast(theme.muted, ground) / 1.5
    # The numbers of the devices stand on the first two in their colours.
    least = 4.5 if behind in ("bg", "card") else 3
    assert min(contrast(colour, ground) for colour in theme.cycle) >= least


@BOTH
def test_cards_and_buttons_have_the_contrast_of_the_measured_rules(theme: Theme) -> None:
    assert contrast(theme.text, theme.card) >= 14.6
    assert contrast(theme.muted, theme.card) >= 5.9
    assert contrast(theme.other, theme.card) >= 3
    assert contrast(theme.on_accent, theme.accent_bg) >= 4.5  # on Start, and on what is selected
    assert contrast(theme.accent_bg, theme.card) >= 3
    assert len(set(theme.cycle)) == 8
    assert theme.curve(9) == theme.cycle[1]


@BOTH
def test_the_style_sheet_is_filled_in_and_its_pictures_exist(theme: Theme) -> None:
    sheet = look.style_sheet(theme)
    assert "$" not in sheet
    assert theme.card in sheet
    pictures = re.findall(r"url\(([^)]+)\)", sheet)
    assert pictures
    for picture in pictures:
        on_accent = Path(picture).stem.startswith(("check-ffffff", "play-fill-ffffff"))
        is_disabled = Path(picture).stem == f"play-fill-{theme.faint.removeprefix('#')}"
        ink = theme.on_accent if on_accent else theme.faint if is_disabled else theme.muted
        file = QFile(picture)
        assert file.open(QIODevice.OpenModeFlag.ReadOnly)
        assert ink in bytes(file.readAll().data()).decode()


@BOTH
def test_a_palette_tells_its_theme(theme: Theme, qapp: QApplication) -> None:
    palette = look.palette(theme)
    assert look.theme_of(palette) is theme
    assert palette.color(QPalette.ColorRole.Highlight) == QColor(theme.accent_bg)
    assert palette.color(QPalette.ColorRole.Link) == QColor(theme.accent)
    disabled = palette.color(QPalette.ColorGroup.Disabled, QPalette.ColorRole.ButtonText)
    assert disabled == QColor(theme.faint)


def test_the_bundled_fonts_are_used_and_digits_are_equally_wide(qapp: QApplication) -> None:
    look.load_fonts()
    font = look.application_font()
    assert QFontInfo(font).family() == "Inter"
    assert QFontInfo(look.monospace_font()).family() == "JetBrains Mono"
    widths = {QFontMetrics(font).horizontalAdvance(digit * 8) for digit in "0123456789"}
    assert len(widths) == 1
    proportional = QFont(font)
    proportional.unsetFeature(QFont.Tag("tnum"))
    plain = QFontMetrics(proportional)
    assert plain.horizontalAdvance("1" * 8) < plain.horizontalAdvance("0" * 8)
    semi_bold = QFont(font)
    semi_bold.setWeight(QFont.Weight.DemiBold)
    assert QFontInfo(semi_bold).weight() == QFont.Weight.DemiBold


def test_every_icon_takes_its_colour_at_every_scale(qapp: QApplication) -> None:
    for name, ratio in product(sorted(file.stem for file in ICONS.glob("*.svg")), (1.0, 2.5)):
        image = look.icon(name, "#ff0000").pixmap(QSize(16, 16), ratio).toImage()
        assert image.width() == 16 * ratio
        places = product(range(image.width()), range(image.height()))
        colours = (image.pixelColor(x, y) for x, y in places)
        inked = [colour for colour in colours if colour.alpha() > 90]
        assert inked, name
        assert all(colour.red() > 240 > 15 > colour.green() for colour in inked), name


def test_an_unknown_icon_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        look.icon("no-such-icon", DARK)


def test_system_means_what_the_system_says(controller: ThemeController, qapp: QApplication) -> None:
    """An unknown colour scheme, as without a screen, is light; while the system is followed, a
    change is applied."""
    hints = qapp.styleHints()
    assert hints.colorScheme() is Qt.ColorScheme.Unknown
    assert controller.current is LIGHT
    controller.set_choice("dark")
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert controller.current is DARK
    controller.set_choice("system")
    assert controller.current is LIGHT


def test_it_follows_the_system_while_asked_to(qapp: QApplication, monkeypatch: Patch) -> None:
    scheme = Qt.ColorScheme.Dark
    monkeypatch.setattr(look, "system_scheme", lambda app: scheme)
    controller = ThemeController(qapp)
    assert controller.current is DARK
    scheme = Qt.ColorScheme.Light
    qapp.styleHints().colorSchemeChanged.emit(scheme)
    assert controller.current is LIGHT


def test_a_change_is_applied_and_signalled_once(
    controller: ThemeController, qapp: QApplication, qtbot: QtBot
) -> None:
    told: list[Theme] = []
    controller.changed.connect(told.append)
    label = QLabel("x")
    qtbot.addWidget(label)
    label.show()
    controller.toggle()
    controller.set_choice("dark")
    assert told == [DARK]
    assert look.theme_of(label.palette()) is DARK
    assert DARK.card in qapp.styleSheet()
    controller.toggle()
    assert told == [DARK, LIGHT]
    assert look.theme_of(label.palette()) is LIGHT


@BOTH
def test_every_token_is_a_colour(theme: Theme) -> None:
    values = [value for value in asdict(theme).values() if isinstance(value, str)]
    colours = [value for value in values if value != theme.name] + list(theme.cycle)
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_no_other_module_of_the_window_names_a_colour() -> None:
    for file in look.RESOURCES.parent.joinpath("gui").rglob("*.py"):
        if file.name != "theme.py":
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"[\"']#[0-9a-fA-F]{3,8}[\"']|setStyleSheet\(", text), file
