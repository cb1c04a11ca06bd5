"""Which plot of the comparison a series belongs in: one each, so that a colour means a run."""

from __future__ import annotations

from collections.abc import Mapping

from engine.spec.metric_direction import NO_OVERRIDES
from gui.plots.data.series_style import (
    LOSS,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    SeriesStyle,
    spoken,
    style_of,
)
from gui.style.translation import translate


def place(series: str, metric_directions: Mapping[str, str] = NO_OVERRIDES) -> SeriesStyle | None:
    """The plot of `series`, with the factor and the smoothing that it has in a single run."""
    found = style_of(series, metric_directions)
    if found is None:
        return None
    kind = found.plot
    validates = series.startswith("validation/")
    if kind == LOSS:
        return found._replace(plot=VALIDATION_LOSS if validates else TRAIN_LOSS)
    title = (
        kind.title
        if validates or kind.is_detail or kind.unit == "samples/s"
        else translate("Plots", "{metric} (training)").format(metric=spoken(kind.title))
    )
    return found._replace(plot=kind._replace(title=title, rank=kind.rank + 1, is_detail=False))
