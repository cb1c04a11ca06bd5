"""The kinds of `Parallel` of the TensorFlow strategies, with their loops and processes.

Imports `engine.tf` (but not its trainer) and what is below it.
"""
