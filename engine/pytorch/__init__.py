"""Training with PyTorch in one rank; imported by name, inside a worker only.

Imports `training` and what is below it, and torch.
"""
