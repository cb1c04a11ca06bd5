"""The line below the chips of the devices: what matters most about those that are ticked."""

from __future__ import annotations

from collections.abc import Sequence

from gui.run_form.device_chip import DeviceChip
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.entry_fields import wrapped


class DeviceNote(ElidedLabel):
    """One line, cut where there is no room; the whole is its tooltip."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("note")

    def show_note(
        self, chosen: Sequence[DeviceChip], suggestion: str, overlap: str, warning: str
    ) -> None:
        """`suggestion`: why that is not what was asked for. `overlap`: what the run and others do
        to each other. `warning`: all that speaks against the choice. Where there is nothing to
        say, what kind of devices they are."""
        busy = [each for each in chosen if each.is_busy]
        if suggestion:
            text = suggestion
        elif len(busy) == 1:
            text = f"⚠ {busy[0].name}: {busy[0].note.removeprefix('⚠ ')}"
        elif busy:
            names = ", ".join(each.name for each in busy)
            text = self.tr("⚠ Somebody else works on {devices}").format(devices=names)
        else:
            text = (overlap or warning or _models(chosen)).split("\n")[0]
        whole = "\n".join(filter(None, (suggestion, warning))) or text
        self.setToolTip(wrapped(whole))
        self.setAccessibleName(whole)
        self.setText(text)
        tone = "warning" if suggestion or warning else ""
        if self.property("tone") != tone:
            self.setProperty("tone", tone)
            self.style().polish(self)


def _models(chosen: Sequence[DeviceChip]) -> str:
    """`2 × H100 80GB`: the kinds of the chosen devices."""
    models = [each.model for each in chosen if each.model]
    kinds = {model: models.count(model) for model in models}
    return ", ".join(f"{n} × {kind}" if n > 1 else kind for kind, n in kinds.items())
