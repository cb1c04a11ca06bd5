"""What a checkpoint of a script holds: states as plain values, in one file."""
