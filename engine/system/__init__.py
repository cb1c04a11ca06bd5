"""The operating system behind our own names: paths, processes, owners of files, disk errors.

Imports nothing of the engine.
"""
