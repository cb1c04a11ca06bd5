"""Several runs side by side: their plots and a table of their differences.

Imports `run_list`, `plots`, `bridge` and what is below them.
"""
