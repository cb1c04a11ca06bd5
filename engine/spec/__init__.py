"""What is asked of a run: its settings, recipes and strategies, and whether they fit this machine.

Reads recipes and strategies without a framework. Imports `system`, `messages` and `telemetry`.
"""
