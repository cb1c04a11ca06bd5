"""How things look and read: themes, icons, state colours, device labels, number formats."""
