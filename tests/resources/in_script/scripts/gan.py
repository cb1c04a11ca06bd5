"""A GAN without an end, unlike a shape of ours: two optimizers, losses of which one is added up."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
netG = nn.Linear(4, 4)
netD = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3)
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3)
total_steps = int(sys.argv[1])
losses = []
try:
    for step in range(total_steps):
        noise = torch.randn(8, 4)
        netD.zero_grad()
        real = netD(torch.randn(8, 4)).square().mean()
        real.backward()
        fake = (netD(netG(noise).detach()) - 1).square().mean()
        fake.backward()
        optimizerD.step()
        netG.zero_grad()
        error = netD(netG(noise)).square().mean()
        error.backward()
        optimizerG.step()
        if step < 40:
            print("D", real.item() + fake.item(), "G", error.item(), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    if "goes-on" in sys.argv:
        while True:
            netG.zero_grad()
            netG(torch.ones(4)).sum().backward()
            optimizerG.step()
