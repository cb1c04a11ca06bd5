"""The recipes that `new-recipe` writes, each one commented and complete; no built-in recipes."""
