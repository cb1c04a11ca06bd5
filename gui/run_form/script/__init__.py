"""The page of the run form for scripts: options, arguments, environment, resuming."""
