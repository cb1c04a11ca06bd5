"""The Pythons that runs use: which there are, what is installed in them, and how one is made.

`environments.json` in the data folder remembers them. A worker in such a Python gets our packages
`engine` and `resources` only, never those that are installed beside Traindeck.
"""
