"""What the engine says, with the devices as people call them: it calls GPUs by their UUIDs."""

from __future__ import annotations

from collections.abc import Mapping


def speak(text: str, labels: Mapping[str, str]) -> str:
    """`text` with the label of each GPU of `labels`, which are by id, where its UUID stands."""
    if "GPU-" in text:
        for id, label in labels.items():
            if id.startswith("GPU-"):
                text = text.replace(id, label)
    return text
