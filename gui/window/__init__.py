"""The main window around all panels: layout, menus, shortcuts, theme, notices.

Imports the panels that are always there; the rooms above it fill its pages.
"""
