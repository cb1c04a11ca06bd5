"""Asks a machine with an NVIDIA GPU what no double can answer: see README.md beside this file."""
