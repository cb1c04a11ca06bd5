"""The comparison of several runs: their plots, and a table of their differences."""
