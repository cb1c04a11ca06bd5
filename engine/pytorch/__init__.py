"""Training with PyTorch in one rank; imported by name, inside a worker only."""
