"""The window: PySide6 and pyqtgraph over the engine's plain modules."""
