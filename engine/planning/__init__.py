"""What is measured before a run, in short runs by real workers, and what follows from it."""
