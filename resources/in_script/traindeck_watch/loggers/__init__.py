"""What scripts give to their loggers, and stand-ins for loggers that are not installed."""
