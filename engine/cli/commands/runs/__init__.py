"""The commands about runs that are there: list, show, command, copy, export."""
