"""Template processes: each has imported a framework and forks workers, which start at once.

The frameworks are imported by name, inside a template.
"""
