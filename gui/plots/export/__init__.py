"""Exports plots to files and to the clipboard: PNG, SVG, CSV.

Imports `plots.plot`, `bridge` and the packages below them.
"""
