"""The state of this machine's devices: snapshots, alarms, history, and the use of GPU memory.

Only `telemetry.helper`, a process of its own, asks the driver.
"""
