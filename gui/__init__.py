"""The window (PySide6 and pyqtgraph); `app.py` builds and connects everything.

Imports every package of `gui` and of `engine` but the frameworks.
"""
