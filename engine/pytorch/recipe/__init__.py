"""What a recipe offers to a PyTorch training, in one form: `TorchRecipe`, and who makes it."""
