"""Functions of the operating system: paths, logs, units, standard streams.

With `engine.processes` and `engine.files` below it, it knows nothing about runs.
"""
