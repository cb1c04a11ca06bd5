"""One plot: curves, axes, legend, crosshair, markers.

Imports `plots.data`, `widgets` and `style`.
"""
