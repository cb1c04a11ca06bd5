"""What is measured before a run: who measures it, what takes part, and what is kept of it."""
