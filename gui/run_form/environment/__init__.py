"""The environment whose Python trains a recipe: the row of the form, and making a new one."""
