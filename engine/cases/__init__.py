"""A failed run as one file: what is collected of it, its format, and how it is opened elsewhere."""
