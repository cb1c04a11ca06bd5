"""Files of the user and of runs that the window opens, follows or remembers."""
