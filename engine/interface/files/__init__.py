"""Files in pieces with a SHA-256, sent and fetched all or nothing, and the folders for them."""
