"""The kinds of `Parallel` of the TensorFlow strategies, with their loops and processes."""
