"""The command line: the actions of the window, from a terminal.

Imports `client` and what is below it.
"""
