"""The messages between the processes of a run: commands, events, and the channel for them."""
