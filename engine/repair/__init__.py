"""Finds damaged files of runs and of the data folder, and mends what can be mended.

It starts no process.
"""
