"""Other machines: their connections and engines, the Pythons and sweeps there."""
