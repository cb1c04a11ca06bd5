"""The one typed interface of a Traindeck for a window or a command line, and the engine here."""
