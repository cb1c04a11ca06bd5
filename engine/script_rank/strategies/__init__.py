"""One file for each strategy; `engine.spec.catalog` finds them."""
