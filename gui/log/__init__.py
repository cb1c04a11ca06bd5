"""The output of the workers and the events of a run."""
