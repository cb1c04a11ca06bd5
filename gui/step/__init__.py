"""The page Step: one step of a run, trained again: what made it, its samples and its layers."""
