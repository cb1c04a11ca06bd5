"""The data of the plots: series, smoothing, time and epochs; no widgets."""
