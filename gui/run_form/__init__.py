"""The form for a new run, or for a run that goes on with changes."""
