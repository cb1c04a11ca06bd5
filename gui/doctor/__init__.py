"""The dialog Doctor: whether this machine can train, and what to do.

Imports `bridge`, `widgets` and `style`.
"""
