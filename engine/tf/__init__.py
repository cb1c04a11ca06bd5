"""Training with TensorFlow in one process; imported by name, inside a worker only."""
