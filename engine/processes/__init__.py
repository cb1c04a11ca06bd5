"""Processes of this machine: started, identified, watched and ended."""
