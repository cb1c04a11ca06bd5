"""The main window around all panels: layout, menus, shortcuts, theme, notices.

It holds the panels that are always there; the packages above it fill its pages.
"""
