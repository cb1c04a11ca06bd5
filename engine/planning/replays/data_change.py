"""Whether the training data of a replay are those of the run, by their fingerprints."""

from __future__ import annotations

from engine.facts.run_facts import DataFacts


def data_change(then: DataFacts | None, now: DataFacts | None) -> str:
    """Return in a sentence how the data differ; empty: they do not, or that is not known."""
    if then is None or now is None:
        return ""
    if then.length != now.length:
        return (
            f"The training data have {now.length:,} samples, and had {then.length:,} when this run "
            "was trained."
        )
    both = then.samples.keys() & now.samples.keys()
    others = sorted(index for index in both if then.samples[index] != now.samples[index])
    if others:
        return (
            f"Sample {others[0]} differs from what this run was trained on, as "
            f"{_some(len(others), len(both))} that were compared."
        )
    return now.problem


def data_sameness(then: DataFacts | None, now: DataFacts | None) -> str:
    """Return in a sentence what of the data was compared, where nothing differs; empty: nothing."""
    both = then.samples.keys() & now.samples.keys() if then and now else ()
    if not both:
        return ""
    count = f"the {len(both)} samples" if len(both) > 1 else "the sample"
    verb = "were" if len(both) > 1 else "was"
    return f"The data have the same length as then, and {count} that {verb} compared are the same."


def _some(count: int, of: int) -> str:
    return f"all {of}" if count == of else f"{count} of {of}"
