"""The command line: start a run, follow it, list and show what there is, ask things of it."""
