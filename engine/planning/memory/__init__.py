"""How much memory a run needs, and the largest batch: from short runs with other batches."""
