"""The exception with which work ends that its caller does not want any more."""


class Cancelled(Exception):
    """The caller does not want the result any more; nothing of it is left."""
