"""The checkpoints of a run: their files, where they lie, and which attempt saved them."""
