"""Steps that are trained again: whether they are equal, what made them, where two runs part."""
