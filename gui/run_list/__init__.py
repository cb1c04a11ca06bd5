"""The list of runs and what can be done with one of them: open, resume, delete, note.

Imports `bridge`, `widgets` and `style`.
"""
