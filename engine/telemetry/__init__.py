"""What the devices of this machine do, as data: snapshots, alarms, history, who uses the memory.

Imports `system` only; the driver is asked by `telemetry.helper`, in a process of its own.
"""
