"""The bridge between window and engine: stores, commands, telemetry, files, background work.

The only package of the window that touches files, sockets or processes.
"""
