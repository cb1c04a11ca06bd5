"""Commands that measure before a run: what would be fastest, what would fit, what would fail."""
