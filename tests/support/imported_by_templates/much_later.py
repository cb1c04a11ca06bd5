"""Is imported after `later`."""
