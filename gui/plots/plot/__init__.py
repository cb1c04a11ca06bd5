"""One plot: curves, axes, legend, crosshair, markers."""
