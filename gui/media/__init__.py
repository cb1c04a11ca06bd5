"""The tab Media: images and histograms that a run has logged, by series and step."""
