"""How a model is trained under each TensorFlow strategy that needs more than the plain trainer.

Imports `tf` and what is below it.
"""
