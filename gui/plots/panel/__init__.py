"""The panel of plots: order, toolbar, linked zoom and keyboard control.

Imports `plots.plot` and the packages below it.
"""
