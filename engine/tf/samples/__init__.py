"""Samples and batches under TensorFlow: data sets, how a graph reads them, and local batches."""
