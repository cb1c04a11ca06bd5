"""The command line: the actions of the window, from a terminal."""
