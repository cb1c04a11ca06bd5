"""The dialog that makes a sweep from what is in the form."""
