"""The program that `ssh` starts on the other machine: what it answers, and what it pushes."""
