"""What a checkpoint of a script holds: states as plain values, one file per rank."""
