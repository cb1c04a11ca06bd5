"""A training script for the picture of the form's page for scripts; it is read, and never run."""

SOURCE = '''"""Trains a classifier of small pictures."""
import argparse

p = argparse.ArgumentParser()
p.add_argument("--data", default="data/pictures", help="folder of the pictures")
p.add_argument("--net", choices=["resnet18", "resnet50", "vit_b_16"], default="resnet18")
p.add_argument("--epochs", type=int, default=90)
p.add_argument("--batch-size", type=int, default=256, help="over all GPUs")
p.add_argument("--lr", type=float, default=0.1, help="initial learning rate")
p.add_argument("--amp", action="store_true", help="mixed precision")
p.add_argument("--resume", metavar="FILE", help="checkpoint to go on from")
args = p.parse_args()

from torch import distributed
'''
