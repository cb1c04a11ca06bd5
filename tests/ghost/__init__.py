"""Eight GPUs that do not exist, on which the trainer of PyTorch runs as on real ones.

A PyTorch without CUDA is made to accept fake CUDA tensors: they have shapes, types and devices,
and no values. So tensors of different devices in one operation raise, each wait of the host for a
GPU is noted with its place, and each piece of device memory that stays is seen. No time, no number
and no kernel is checked here: that needs a card.
"""
