"""Samples and batches of a recipe: their order, their names, and what a nested batch holds."""
