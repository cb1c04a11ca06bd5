"""The dialog Doctor: whether a machine can train, and what to do."""
