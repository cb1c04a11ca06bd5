"""Built-in recipes, each one file that a user could have written."""
