"""The comparison of several runs: their plots, and a table of their differences.

Imports `run_list`, `plots`, `bridge` and the packages below them.
"""
