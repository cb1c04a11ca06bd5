"""Its import fails."""

raise SystemExit("this module is broken")
