"""Functions of the operating system: paths, files, processes, logs, units. No knowledge of runs.

Imports nothing of the engine.
"""
