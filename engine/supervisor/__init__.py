"""The process that owns one run: its worker pool, its store, its place in the queue, its restarts.

Imports `worker`, `diagnosis`, `runs` and the layers below them; no framework.
"""
