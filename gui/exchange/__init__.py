"""The dialogs that export runs, and that make runs of the files of other programs."""
