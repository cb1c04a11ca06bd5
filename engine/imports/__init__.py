"""Runs made of the files of other programs: TensorBoard logs and CSV."""
