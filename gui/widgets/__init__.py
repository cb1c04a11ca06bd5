"""Small widgets that know nothing of runs or devices.

Imports `style`.
"""
