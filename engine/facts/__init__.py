"""What each attempt of a run was started with: environment, code in git, devices, the model.

Recorded beside the training, and never a reason for it to fail or to wait.
"""
