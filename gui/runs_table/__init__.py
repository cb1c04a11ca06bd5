"""The page with all runs: the table, its filter, groups and columns, and the comparison above it."""
