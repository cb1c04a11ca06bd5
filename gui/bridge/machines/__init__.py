"""Other machines: their connections, and the one way to a run wherever it is."""
