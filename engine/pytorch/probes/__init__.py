"""What is looked at and measured in a rank's steps: first batch, indices, memory, a failure."""
