"""Exports plots to files and to the clipboard: PNG, SVG, CSV."""
