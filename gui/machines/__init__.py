"""Other machines: their cards in the left column, their page, and the dialogs about them."""
