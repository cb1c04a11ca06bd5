"""Runs as one page of HTML that needs nothing but itself: no script, no file, no network."""
