"""The process that owns one run: its worker pool, its store, its place in the queue, its restarts."""
