"""The training engine: everything that runs without a window; it imports no Qt."""
