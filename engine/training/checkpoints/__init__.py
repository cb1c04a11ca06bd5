"""When a training saves a checkpoint, how all ranks do it, and which ones are kept."""
