"""Runs on disk: folder, store, checkpoints, state and notes of each; the queue and list of all.

Imports `spec` and what is below it.
"""
