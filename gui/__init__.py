"""The window (PySide6 and pyqtgraph); `app.py` builds and connects everything."""
