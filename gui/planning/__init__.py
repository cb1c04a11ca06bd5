"""What is measured before a run: the page Race, the findings of a preflight, the batch search."""
