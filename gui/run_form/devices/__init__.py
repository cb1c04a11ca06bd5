"""The devices of a new run: a chip each, the choice, and what other runs do to it."""
