"""The process of one rank: connection to the supervisor, output, signals, failure report.

Its framework is imported by name, at run time.
"""
