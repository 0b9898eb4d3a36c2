"""Why networks on tables of features fail: the hybrid loss, minimised without a network and with.

    loss(Z) = mean_k E|f - P_k f|^2 / E|f|^2,   P_k the M-projection,  M = q_1^2,   V = Q / q_1

    python -m benchmarks.image_loss TABLE.npz free             (a processor: a few minutes)
    python -m benchmarks.image_loss TABLE.npz network --steps 400 1500 4000 --device cuda

The covariance C of the paper's probes on the even rows of a table is exact, so the loss is, too.
`free` minimises it over all features in the span of the constant and the leading vectors of C,
starting at the closed form whose first vector is the constant; `network` trains the paper's
network on it, and a second one whose first feature is held even.  k-means is scored in V and in
Q, on the rows themselves and, of networks, on odd rows too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from benchmarks.record import best_device, existing, facts, results_file, write
from eigenprobe import networks
from eigenprobe.io.tables import read_table
from eigenprobe.probes import DenseCovariance, Objective, nested_basis
from eigenprobe.probes.objective import expected_errors, first_mass
from eigenprobe.training import Batch, ManifoldData, Optimisation, RunSettings, SpectralModule
from eigenprobe.training import train as fit
from eigenprobe.training.data import Pool
from eigenprobe_lab.evaluation.clustering import kmeans_scores
from eigenprobe_lab.evaluation.reports import markdown
from eigenprobe_lab.paper.images_recipe import NETWORK, ImagesRecipe
from eigenprobe_lab.paper.overfit import covariance
from eigenprobe_lab.paper.variants import EvenFirst

SPAN, VECTORS = 60, 11
TRIPLE = {"neighbours": 20, "sigma": 0.4, "smoothing_steps": 20}  # tuned on the same rows
ITERATIONS = {5: "free, 5 iterations", 20: "free, 25 iterations", 400: "free, least hybrid loss"}
FILE = "paper_image_loss.json"


def unit(x: np.ndarray) -> Tensor:
    """Rows of length one, ``(n, d)`` float64."""
    rows = torch.as_tensor(np.asarray(x, np.float64))
    return rows / rows.norm(dim=1, keepdim=True)


def hybrid_loss(features: Tensor, exact: Tensor) -> Tensor:
    """The loss of features ``(n, K)`` under a covariance ``(n, n)``."""
    trace = exact.trace()
    errors = expected_errors(features, lambda x: exact @ x, trace, first_mass(features))
    return errors.mean() / trace


def described(features: Tensor, exact: Tensor, labels: np.ndarray) -> dict[str, float]:
    """Loss, how even q_1 is, and k-means in V and in Q."""
    q = nested_basis(features.double())
    low = torch.quantile(q[:, 0].abs(), 0.05) * len(q) ** 0.5
    row = {"loss": float(hybrid_loss(features, exact)), "q_1 at 5 % of rows, 1 is even": float(low)}
    return row | scores(q, labels)


def scores(q: Tensor, labels: np.ndarray, where: str = "") -> dict[str, float]:
    """NMI of k-means in ten coordinates of V and of Q, ``q (n, 11)`` orthonormal."""
    found = {"V": q[:, 1:] / q[:, :1], "Q": q[:, 1:]}
    return {
        f"NMI of {name}{where}": kmeans_scores(each.cpu().numpy(), labels, starts=10)["nmi"]
        for name, each in found.items()
    }


def minimise(exact: Tensor, labels: np.ndarray, vectors: int = VECTORS) -> list[dict[str, Any]]:
    """The closed form with the constant first, then the least hybrid loss that starts there."""
    n = len(exact)
    constant = torch.full((n, 1), n**-0.5, dtype=exact.dtype)
    centred = exact - exact.mean(0)
    centred = centred - centred.mean(1, keepdim=True)
    leading = torch.linalg.eigh(centred).eigenvectors.flip(-1)
    span = torch.cat([constant, leading[:, : min(SPAN, n) - 1]], 1)  # (n, 60)
    start = torch.eye(span.shape[1], vectors, dtype=exact.dtype)
    turn = start + 1e-4 * torch.randn(start.shape, generator=torch.Generator().manual_seed(0))
    turn.requires_grad_()
    solver = torch.optim.LBFGS([turn], history_size=30, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = hybrid_loss(span @ turn, exact)
        loss.backward()
        return loss

    rows = [{"features": "closed form, q_1 even"} | described(span @ start, exact, labels)]
    for count, name in ITERATIONS.items():
        solver.param_groups[0] |= {"max_iter": count, "max_eval": 2 * count}
        solver.step(closure)
        rows.append({"features": name} | described(span @ turn.detach(), exact, labels))
    return rows


class Looks(pl.Callback):
    """Calls ``look(network, step)`` after some steps."""

    def __init__(self, steps: list[int], look: Callable[[torch.nn.Module, int], None]) -> None:
        self.steps, self.look = steps, look

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        if trainer.global_step in self.steps:
            module.eval()
            with torch.no_grad():
                self.look(module.network, trainer.global_step)
            module.train()


def train(
    rows: Tensor,
    exact: Tensor,
    labels: np.ndarray,
    other: tuple[Tensor, np.ndarray],
    steps: list[int],
    device: str,
    **sizes: Any,
) -> list[dict[str, Any]]:
    """The paper's network on the exact loss, with q_1 learned and with it even, at some steps."""
    found: list[dict[str, Any]] = []
    points = rows.float().to(device)[None]
    batch = Batch(points, covariance=DenseCovariance(exact.float().to(device)[None]))
    for kind in ("q_1 learned", "q_1 even"):
        network: torch.nn.Module = networks.build(
            "overfit",
            rows.shape[1],
            VECTORS,
            torch.Generator().manual_seed(0),
            **NETWORK | {"width": 128, "feedforward": 128} | sizes,
        )
        network = network if kind == "q_1 learned" else EvenFirst(network)
        options: dict[str, Any] = {"warmup": 0, "schedule": "constant", "weight_decay": 0.01}
        module = SpectralModule(
            network,
            Objective("expected", "hybrid", relative=True),
            Optimisation(max(steps), 5e-4, betas=(0.9, 0.999), clip=0.01, **options),
            precision="auto",
            accelerate="graph",
        )

        def look(network: torch.nn.Module, step: int, kind: str = kind) -> None:
            z, w = (
                network(each.float().to(device)[None])[0].cpu().double()
                for each in (rows, other[0])
            )
            row = {"features": f"network, {kind}", "steps": step} | described(z, exact, labels)
            found.append(row | scores(nested_basis(w), other[1], ", odd rows"))
            print(found[-1], flush=True)

        run = RunSettings(device=device, logs=False, flags={"callbacks": [Looks(steps, look)]})
        fit(module, ManifoldData(Pool([batch]), steps=max(steps)), run)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=existing)
    parser.add_argument("what", choices=["free", "network"])
    parser.add_argument("--steps", type=int, nargs="+", default=[400, 1500, 4000])
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--device", default=best_device())
    o = parser.parse_args()
    table = read_table(o.table)
    x, y = np.asarray(table.features)[: o.rows], np.asarray(table.labels)[: o.rows]
    rows, labels = unit(x[0::2]), y[0::2]
    exact = covariance(rows, ImagesRecipe(**TRIPLE).probe_distribution())
    values, columns = torch.linalg.eigh(exact)
    shares = np.bincount(labels, weights=columns[:, -1].square().numpy())
    about = {
        "leading eigenvalue": float(values[-1]),
        "of the constant": float(exact.sum() / len(exact)),
        "largest share of a class in the leading vector": float(shares.max()),
    }
    if o.what == "free":
        found = minimise(exact, labels)
    else:
        found = train(rows, exact, labels, (unit(x[1::2]), y[1::2]), o.steps, o.device)
    print(about, markdown(found), sep="\n")
    path, kept = results_file(FILE), []
    if path.is_file():  # what the other part has measured stays
        kept = [
            row
            for row in json.loads(path.read_text())["rows"]
            if row["features"].startswith("network") != (o.what == "network")
        ]
    both = sorted([*kept, *found], key=lambda row: row["features"].startswith("network"))
    write(FILE, facts("image_loss", o.device, o) | {"facts": about, "rows": both})


if __name__ == "__main__":
    main()
