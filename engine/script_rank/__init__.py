"""The process of one rank of a script: it runs the user's command, which knows nothing of it."""
