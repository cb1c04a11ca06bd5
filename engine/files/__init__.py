"""Files that must survive what happens to a disk: durable, private, and read with care."""
