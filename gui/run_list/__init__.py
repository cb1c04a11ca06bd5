"""The list of runs, and its actions: open, resume, delete, take notes, compare."""
