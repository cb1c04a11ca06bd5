"""Gives the same figures to every logger that is installed."""

import os
import tempfile

import aim
import mlflow
import numpy as np
import tensorboardX
import trackio
import wandb
from torch.utils.tensorboard import SummaryWriter

folder = tempfile.mkdtemp()
os.chdir(folder)
picture = np.zeros((8, 8, 3), dtype=np.uint8)
tb, tbx = SummaryWriter(folder + "/tb"), tensorboardX.SummaryWriter(folder + "/tbx")
run = wandb.init(project="p")
trackio.init(project="p")
mlflow.set_tracking_uri("sqlite:///" + folder + "/mlflow.db")
aim_run = aim.Run(repo=folder)
for step in range(3):
    value = step / 2
    tb.add_scalar("tb", value, step)
    tb.add_scalars("both", {"a": value}, step)
    tb.add_image("tb_image", picture, step, dataformats="HWC")
    tb.add_histogram("tb_h", np.arange(9.0), step)
    tbx.add_scalar("tbx", value, step)
    wandb.log({"wandb": value, "wandb_image": wandb.Image(picture)}, step=step)
    wandb.log({"wandb_h": wandb.Histogram(np.arange(9.0))}, step=step)
    trackio.log({"trackio": value, "trackio_image": trackio.Image(picture)}, step=step)
    mlflow.log_metric("mlflow", value, step=step)
    aim_run.track(value, name="aim", step=step, context={"subset": "train"})
    aim_run.track(aim.Image(picture), name="aim_image", step=step)
run.finish()
trackio.finish()
