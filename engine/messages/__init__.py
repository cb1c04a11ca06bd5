"""What the processes of a run say to each other: commands, events, and the channel between them.

Imports `system` only.
"""
