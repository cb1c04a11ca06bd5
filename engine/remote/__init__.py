"""Another machine over SSH: which ones there are, the program there, and the connection to it."""
