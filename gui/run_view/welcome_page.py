"""The page in the centre before the first run: three steps, and a button for a first run."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QPushButton, QWidget

from engine.facts.settings import RECIPE_DEFAULTS
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from gui.bridge.files.recipes import read_recipe
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.plain_text import Label

RECIPE = "digits"
_CARD_WIDTH = 520


class WelcomePage(QWidget):
    """Explains the window, and offers to start a first run."""

    try_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title = Label("Train your first model", objectName="welcome")
        self.button = QPushButton()
        self.button.setObjectName("go")
        self.note = Label(objectName="mut", wordWrap=True)
        card = QFrame()
        card.setObjectName("card")
        card.setFixedWidth(_CARD_WIDTH)
        inside = column_of(title, self._steps(), parent=card, margins=(28, 24, 28, 24), spacing=18)
        row = row_of(self.button, STRETCH)
        inside.addLayout(row)
        inside.addWidget(self.note)
        layout = column_of(2, parent=self, margins=0)
        middle = QHBoxLayout()  # with an alignment, Qt would ignore the height of wrapped lines
        middle.addStretch(1)
        middle.addWidget(card)
        middle.addStretch(1)
        layout.addLayout(middle)
        layout.addStretch(3)
        self.button.clicked.connect(self._try)
        self._failure = ""
        self.set_device("cpu:0", "the CPU")
        self.show_starting(False)

    def set_device(self, device: str, display_name: str) -> None:
        """Set the device for the first run: its id in a spec, and its display name."""
        self.device = device
        self._display_name = display_name
        self._describe()

    def show_starting(self, is_starting: bool) -> None:
        """Show whether the run is being started."""
        self.button.setEnabled(not is_starting)
        self.button.setText("Starting…" if is_starting else "Try it: digits on this machine")

    def show_failure(self, sentence: str) -> None:
        """Show why the run did not start."""
        self.show_starting(False)
        self._failure = sentence
        self._describe()

    def _try(self) -> None:
        self._failure = ""
        self.show_starting(True)
        self._describe()
        self.try_clicked.emit()

    def _describe(self) -> None:
        failure = f"⚠ {self._failure}" if self._failure else ""
        self.note.setText(
            failure
            or (
                f"Trains a small network on handwritten digits, on {self._display_name}. Nothing "
                "is downloaded."
            )
        )
        self.note.setObjectName("problem" if failure else "mut")
        self.note.style().polish(self.note)  # apply the style of the new object name

    def _steps(self) -> QGridLayout:
        steps = (
            (
                "Choose what to train",
                "A recipe is one Python file with your model and your data. Two come with "
                "Traindeck; File → Open file opens yours, or your own script.",
            ),
            (
                "Choose where and how",
                "Tick devices in the form on the left, and pick a strategy for them. A choice that "
                "does not fit shows the reason.",
            ),
            (
                "Press Start run, and watch",
                "Curves, devices and logs appear here. The run goes on when you close the window.",
            ),
        )
        grid = QGridLayout()
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(14)
        grid.setColumnStretch(1, 1)
        for row, (heading, text) in enumerate(steps):
            number = Label(str(row + 1), objectName="stepnumber")
            number.setAlignment(Qt.AlignmentFlag.AlignCenter)
            number.setFixedSize(28, 28)
            head, body = Label(heading), Label(text)
            head.setObjectName("ttl")
            body.setObjectName("mut")
            body.setWordWrap(True)
            texts = column_of(head, body, spacing=2)
            grid.addWidget(number, row, 0, Qt.AlignmentFlag.AlignTop)
            grid.addLayout(texts, row, 1)
        return grid


def first_spec(device: str) -> RunSpec:
    """Return the spec of the first run: the digits, with the defaults of their recipe."""
    recipe = read_recipe(RECIPE)
    return RunSpec(
        recipe=recipe.reference,
        strategy=catalog.strategy("single", recipe).name,
        devices=(device,),
        **{name: getattr(recipe, name) for name in RECIPE_DEFAULTS},
    )
