"""Draws pictures of the window for the documentation, with replayed runs and made-up devices."""
