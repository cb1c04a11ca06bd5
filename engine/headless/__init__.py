"""The command line's rooms: start a run, follow it, list and show what there is, ask things of it."""
