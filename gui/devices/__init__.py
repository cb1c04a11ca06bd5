"""The list of devices, the details of one, alarms, and the links between GPUs.

Imports `bridge`, `widgets` and `style`.
"""
