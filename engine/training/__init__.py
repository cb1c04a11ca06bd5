"""The training loop that both frameworks share: chunks of steps, commands, checkpoints, pace."""
