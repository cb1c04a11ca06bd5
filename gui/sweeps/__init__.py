"""The page of the sweeps: their list, and of one the trials, what mattered and the best curve."""
