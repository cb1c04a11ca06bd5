"""The process that owns one run: its worker pool, store, place in the queue, and restarts."""
