"""The page with all runs: its table, filter, groups and columns, and the comparison above."""
