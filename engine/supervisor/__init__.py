"""The process that owns one run."""
