"""Finds damaged files of runs and of the data folder, and mends what can be mended.

Imports no framework and starts no process.
"""
