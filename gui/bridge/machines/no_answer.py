"""The one exception of what is asked of another machine."""


class NoAnswer(OSError):
    """Another machine did not do what was asked; the text is a sentence that names it."""
