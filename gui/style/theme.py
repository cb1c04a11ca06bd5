"""The look: colours, palette, style sheet, fonts, icons. No other module defines a colour."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QPalette
from PySide6.QtWidgets import QApplication

from gui.style.icon_resources import add_icon

RESOURCES = Path(__file__).parents[2] / "resources"

Choice = Literal["system", "dark", "light"]


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours as `#rrggbb`, named by their use."""

    name: Literal["dark", "light"]
    bg: str
    """The background behind the cards."""

    card: str
    card2: str
    """Fields, buttons and tooltips on a card."""

    line: str
    text: str
    muted: str
    faint: str
    """The text of a button that cannot be pressed now."""

    accent: str
    """Focus, selection and links; readable as text."""

    accent_bg: str
    """The accent colour of areas; text on it is `on_accent`."""

    on_accent: str
    selected: str
    """The ground of a selected row; every colour of a text can be read on it."""

    ok: str
    warn: str
    bad: str
    done: str
    """A run that has finished."""

    lost: str
    """A run whose supervisor is gone."""

    other: str
    """Memory of other processes; areas without emphasis."""

    grid: int
    """Opacity of grid lines, 0 to 255."""

    raw: int
    """Opacity of raw values behind their smoothed curve, 0 to 255."""

    cycle: tuple[str, ...]
    """Colours of curves and devices, in this order; they repeat after the last."""

    def curve(self, index: int) -> str:
        """Return the colour of the curve or device number `index`."""
        return self.cycle[index % len(self.cycle)]

    def result(self, share: float) -> str:
        """Return the colour of a result between the worst (0) and the best (1): grey, then the
        accent, then the colour of best values."""
        share = min(1.0, max(0.0, share)) * 2
        first, second = (self.other, self.accent) if share < 1 else (self.accent, self.warn)
        return _blended(first, second, share - (share >= 1))


def _blended(first: str, second: str, share: float) -> str:
    parts = [(int(first[at : at + 2], 16), int(second[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(one + share * (two - one)):02x}" for one, two in parts)


DARK = Theme(
    name="dark",
    bg="#0e1116",
    card="#161b22",
    card2="#1d232c",
    line="#272e39",
    text="#e6edf3",
    muted="#8d98a7",
    faint="#566070",
    accent="#58a6ff",
    accent_bg="#1f6feb",
    on_accent="#ffffff",
    selected="#172842",
    ok="#3fb950",
    warn="#d8a13a",
    bad="#f47067",
    done="#4cc2b4",
    lost="#b69cff",
    other="#657181",
    grid=48,
    raw=60,
    cycle=(
        "#58a6ff", "#ff9d4d", "#41c98e", "#e07be0", "#e5c453", "#f47067", "#a08cff", "#5cc8d8",
    ),
)  # fmt: skip
LIGHT = Theme(
    name="light",
    bg="#f3f5f8",
    card="#ffffff",
    card2="#eef1f5",
    line="#d9dee5",
    text="#1c2128",
    muted="#5a6573",
    faint="#a3acb8",
    accent="#0b63ce",
    accent_bg="#0b63ce",
    on_accent="#ffffff",
    selected="#e5eefa",
    ok="#1a7a35",
    warn="#8f5f00",
    bad="#c9302c",
    done="#0f7268",
    lost="#7445c7",
    other="#838d9b",
    grid=52,
    raw=70,
    cycle=(
        "#0b63ce", "#b85000", "#13805a", "#a436a4", "#8a6d00", "#c9302c", "#6a4fd0", "#0f778a",
    ),
)  # fmt: skip


def theme_of(palette: QPalette) -> Theme:
    """Return the theme of `palette`, for widgets that paint themselves."""
    return DARK if palette.color(QPalette.ColorRole.Window) == QColor(DARK.bg) else LIGHT


def palette(theme: Theme) -> QPalette:
    """Return the QPalette for what the style sheet leaves to the Fusion style."""
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.bg,
        role.Base: theme.card,
        role.AlternateBase: theme.card2,
        role.Button: theme.card2,
        role.ToolTipBase: theme.card2,
        role.Light: theme.card2,
        role.Midlight: theme.card2,
        role.Mid: theme.line,
        role.Dark: theme.line,
        role.Shadow: theme.line,
        role.WindowText: theme.text,
        role.Text: theme.text,
        role.ButtonText: theme.text,
        role.BrightText: theme.text,
        role.ToolTipText: theme.text,
        role.PlaceholderText: theme.muted,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent,
        role.Highlight: theme.accent_bg,
        role.Accent: theme.accent_bg,
        role.HighlightedText: theme.on_accent,
    }
    result = QPalette()
    for each, colour in colours.items():
        result.setColor(each, QColor(colour))
    disabled = QPalette.ColorGroup.Disabled
    for each in (role.WindowText, role.Text):
        result.setColor(disabled, each, QColor(theme.muted))
    result.setColor(disabled, role.ButtonText, QColor(theme.faint))
    return result


def style_sheet(theme: Theme) -> str:
    """Return resources/style.qss with the colours and icons of `theme` filled in."""
    template = (RESOURCES / "style.qss").read_text(encoding="utf-8")
    tokens = asdict(theme)

    def icon_path(match: re.Match[str]) -> str:
        return _icon_path(match[1], tokens[match[2] or "muted"])

    with_icons = re.sub("@([a-z-]+)(?::([a-z_]+))?@", icon_path, template)
    return string.Template(with_icons).substitute(tokens)


def load_fonts() -> None:
    """Register the bundled fonts with Qt. Needs the QApplication; raises OSError if a font is
    damaged."""
    for file in sorted((RESOURCES / "fonts").glob("*.[ot]tf")):
        if QFontDatabase.addApplicationFont(str(file)) < 0:
            raise OSError(f"The font {file} could not be loaded. Install Traindeck again.")


def application_font() -> QFont:
    """Return Inter, with digits of equal width, so that changing figures do not move."""
    font = QFont("Inter")
    font.setPixelSize(13)
    font.setFeature(QFont.Tag("tnum"), 1)
    return font


def monospace_font() -> QFont:
    """Return JetBrains Mono, for logs."""
    font = QFont("JetBrains Mono")
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPixelSize(11)
    return font


def icon(name: str, colour: Theme | str) -> QIcon:
    """Return the icon resources/icons/`name`.svg in one colour (of a theme: its text colour, and
    faint while disabled), sharp at every scale. Raises FileNotFoundError for an unknown name."""
    if not isinstance(colour, Theme):
        return QIcon(_icon_path(name, colour))
    found = QIcon(_icon_path(name, colour.text))
    found.addFile(_icon_path(name, colour.faint), mode=QIcon.Mode.Disabled)
    return found


@cache
def _icon_path(name: str, colour: str) -> str:
    """Return a recoloured copy: both QIcon's SVG engine and the style sheet need a file."""
    source = (RESOURCES / "icons" / f"{name}.svg").read_text(encoding="utf-8")
    copy = f"{name}-{colour.removeprefix('#')}.svg"
    return add_icon(copy, source.replace("currentColor", colour))


def system_scheme(app: QApplication) -> Qt.ColorScheme:
    """Return dark, light, or unknown: many Linux desktops do not say."""
    return app.styleHints().colorScheme()


class ThemeController(QObject):
    """Applies a theme to the application, and follows the system's colour scheme if that is chosen.

    A widget that keeps colours gets the theme in its constructor, and a new theme by `set_theme`,
    which `AppController` calls. A widget that paints itself asks `theme_of(self.palette())`.
    """

    changed = Signal(object)
    """The new theme, after it has been applied to the application."""

    def __init__(self, app: QApplication, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.app = app
        """The application that is styled."""

        self.choice: Choice = "system"
        """The user's choice."""

        self.current = self._chosen_theme()
        """The applied theme."""

        self._apply_style()
        app.styleHints().colorSchemeChanged.connect(self._update)

    def set_choice(self, choice: Choice) -> None:
        """Apply `dark`, `light`, or the theme of the system."""
        self.choice = choice
        self._update()

    def toggle(self) -> None:
        """Switch between dark and light; the system's theme is no longer followed."""
        self.set_choice("light" if self.current is DARK else "dark")

    @contextmanager
    def style_later(self) -> Iterator[None]:
        """Style the widgets that are made meanwhile at the end, once: while there is a style sheet,
        Qt styles a widget and all in it again each time that one of its parents gets another one,
        which is a third of the time of a window."""
        sheet = self.app.styleSheet()
        self.app.setStyleSheet("")
        try:
            yield
        finally:
            self.app.setStyleSheet(sheet)

    def _chosen_theme(self) -> Theme:
        if self.choice != "system":
            return DARK if self.choice == "dark" else LIGHT
        return DARK if system_scheme(self.app) is Qt.ColorScheme.Dark else LIGHT

    def _update(self) -> None:
        theme = self._chosen_theme()
        if theme is not self.current:
            self.current = theme
            self._apply_style()
            self.changed.emit(theme)

    def _apply_style(self) -> None:
        theme = self.current
        self.app.setPalette(palette(theme))
        self.app.setStyleSheet("")  # Qt takes five times as long to put one in the place of another
        self.app.setStyleSheet(style_sheet(theme))
