"""What is measured before a run, and steps of a run that are trained again."""
