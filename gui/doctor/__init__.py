"""The dialog Doctor: whether a machine can train, and what to do.

Imports `run_form` (the choice of the machine), `bridge`, `widgets` and `style`.
"""
