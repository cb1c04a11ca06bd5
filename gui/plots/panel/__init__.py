"""All plots of a run together: order, toolbar, zoom and keys that they share.

Imports `plots.plot` and what is below it.
"""
