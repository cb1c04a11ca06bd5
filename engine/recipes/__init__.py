"""The built-in recipes, each one file as a user would write it.

They import their framework only.
"""
