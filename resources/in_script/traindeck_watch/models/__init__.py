"""The models that a script trains: their layers, and their weights in a checkpoint."""
