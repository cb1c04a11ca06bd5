"""Runs written in the formats of other programs; the live TensorBoard log of a run."""
