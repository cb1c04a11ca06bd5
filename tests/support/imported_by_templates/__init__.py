"""Modules whose import does what a template must survive."""
