"""The training engine: everything that works without a window."""
