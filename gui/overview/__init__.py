"""The tab Overview: how a run came about, and what it is.

Settings, environment, code, model, history, files and notes.
"""
