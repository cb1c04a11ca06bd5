"""How each TensorFlow strategy takes part in a step: kinds of `Parallel`, their loops and ranks.

Imports `engine.tf` (but not its trainer) and what is below it.
"""
