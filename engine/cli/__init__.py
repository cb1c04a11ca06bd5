"""The command line: what the window does, from a terminal.

Imports `client` and what is below it.
"""
