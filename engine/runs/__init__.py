"""Runs on disk: store, checkpoints, state and notes of each run, the list and the queue of all."""
