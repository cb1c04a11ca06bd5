"""What a preflight says: pure rules over what was measured, one module for each thing."""
