"""The plots: their data, one plot, the panel of all plots, and export."""
