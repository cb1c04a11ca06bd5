"""What a recipe offers to a TensorFlow training, in one form: `TfRecipe`, and its parts."""
