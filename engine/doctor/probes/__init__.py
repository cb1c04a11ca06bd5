"""What is asked in a process of its own; see `engine.doctor.probe`.

These files run in the user's Python, from 3.9 on: they need the standard library, and the framework
that they are about. None imports another.
"""
