"""Plots as files and on the clipboard: PNG, SVG, CSV.

Imports `plots.plot`, `bridge` and what is below them.
"""
