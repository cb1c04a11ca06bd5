"""What the devices of this machine are doing."""
