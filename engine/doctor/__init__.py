"""Checks whether this machine can train: driver, builds of the frameworks, the work of each GPU.

A check is a function over facts; these come from `probe.py`, a process of its own with a time
limit.
"""
