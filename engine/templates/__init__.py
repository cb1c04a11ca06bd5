"""Template processes: each has imported a framework and forks workers, which start at once.

Imports `system` only; the frameworks are imported by name, inside a template.
"""
