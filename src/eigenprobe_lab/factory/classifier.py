"""Small networks that tell two kinds apart: weighted cross-entropy by AdamW and a cosine.

x (n, d) -> (x - mean) / spread -> network -> logits (n, 1);  scaling in the first layer
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits


def learn(
    network: nn.Sequential,
    inputs: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    epochs: int,
    rate: float,
    batch: int,
    least: float,
    noise: float = 0.0,
) -> nn.Sequential:
    """The network after ``epochs`` over all rows, for inputs as they are.

    ``least`` is the smallest spread of a column by which it is divided, and also the weight decay;
    ``noise`` is added to the scaled inputs.
    """
    mean, spread = inputs.mean(0), inputs.std(0).clamp_min(least)
    optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=least)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    x = (inputs - mean) / spread
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            z = network(x[rows] + noise * torch.randn_like(x[rows]))[:, 0]
            loss = binary_cross_entropy_with_logits(z, target[rows], weight[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    with torch.no_grad():
        first = network[0]
        assert isinstance(first, nn.Linear)
        first.bias.sub_(first.weight @ (mean / spread))
        first.weight.div_(spread)
    return network.eval().requires_grad_(False)
