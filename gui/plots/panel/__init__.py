"""The panel of plots: order, toolbar, linked zoom and keyboard control."""
