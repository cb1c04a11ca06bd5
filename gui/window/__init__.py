"""The main window around all panels: layout, menus, shortcuts, theme, notices.

Imports the panels and what is below them.
"""
