"""The process of one rank: connection to the supervisor, output, signals, failure report.

Imports `training` and what is below it; its framework is imported by name, at run time.
"""
