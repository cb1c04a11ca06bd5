"""The training loop that both frameworks share: chunks of steps, commands, checkpoints, pace.

Imports `runs` and what is below it; no framework.
"""
