"""The settings of a run, recipes and strategies, and the validation of all three.

Reads recipes and strategies without a framework.
"""
