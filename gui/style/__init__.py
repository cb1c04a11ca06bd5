"""How things look and read: themes, icons, colours of states, numbers and names in words.

Imports nothing of the window.
"""
