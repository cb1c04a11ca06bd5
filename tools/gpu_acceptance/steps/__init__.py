"""The steps of the kit, by theme. Each writes lines of figures; README.md says what is right."""
