"""Pictures of the window for the documentation: recorded runs are replayed, devices are made up."""
