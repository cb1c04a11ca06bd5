"""One run over several machines of a cluster.

The head is the machine with the supervisor. On each other machine, a program (`node.py`) starts the
ordinary workers and passes on what they say; a Ray actor (`relay.py`) carries its messages.
"""
