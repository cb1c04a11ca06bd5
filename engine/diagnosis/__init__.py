"""Finds why a run stops: hangs, lost devices, missed deadlines, and the root cause of a failure."""
