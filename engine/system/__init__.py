"""Functions of the operating system: paths, files, processes, logs, units.

Imports no other package of the engine, and knows nothing about runs.
"""
