"""Training with TensorFlow in one process; imported by name, inside a worker only.

Imports `training` and what is below it, and TensorFlow.
"""
