"""Reads the curves of stores for plots, in the background."""
