"""The run that is shown: controls, figures, failure, and the page of the first start."""
