"""What a training with PyTorch keeps: checkpoints, the average of weights, copies of a moment."""
