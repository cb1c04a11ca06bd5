"""The runs as a table: its columns, the expressions that filter it, groups, and CSV.

Used by the window and by `runs` on the command line.
"""
