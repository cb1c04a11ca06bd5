"""What a command runs, read without running it: scripts, their options, interpreters, secrets."""
