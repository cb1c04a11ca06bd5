"""Why a run does not go on: hangs, lost devices, missed deadlines, and the root cause of a failure.

Imports `runs` and what is below it.
"""
