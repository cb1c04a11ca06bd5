"""The settings of a run, recipes and strategies, and the validation of them all.

Reads recipes and strategies without a framework. Imports `system`, `messages` and `telemetry`.
"""
