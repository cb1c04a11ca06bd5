"""The line below the device chips: the most important note about the ticked devices."""

from __future__ import annotations

from collections.abc import Sequence

from gui.run_form.devices.device_chip import DeviceChip
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import set_wrapped_tip


class DeviceNote(ElidedLabel):
    """One line, elided to its width; the tooltip has the full text."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("note")

    def show_note(
        self, chosen: Sequence[DeviceChip], suggestion: str, overlap: str, warning: str
    ) -> None:
        """Show the most important of: `suggestion` (why fewer GPUs were suggested), a busy device,
        `overlap` (with active runs), `warning` (all warnings), or the models of the devices."""
        busy = [each for each in chosen if each.is_busy]
        if suggestion:
            text = suggestion
        elif len(busy) == 1:
            text = f"⚠ {busy[0].name}: {busy[0].note.removeprefix('⚠ ')}"
        elif busy:
            names = ", ".join(each.name for each in busy)
            text = f"⚠ Other processes use {names}"
        else:
            text = (overlap or warning or _models(chosen)).split("\n")[0]
        full_text = "\n".join(filter(None, (suggestion, warning))) or text
        set_wrapped_tip(self, full_text)
        self.setAccessibleName(full_text)
        self.setText(text)
        tone = "warning" if suggestion or warning else ""
        if self.property("tone") != tone:
            self.setProperty("tone", tone)
            self.style().polish(self)


def _models(chosen: Sequence[DeviceChip]) -> str:
    """Return the models of the chosen devices: `2 × H100 80GB`."""
    models = [each.model for each in chosen if each.model]
    kinds = {model: models.count(model) for model in models}
    return ", ".join(f"{n} × {kind}" if n > 1 else kind for kind, n in kinds.items())
