"""The model card: written from the facts of a run, so that it cannot say anything the run did not."""

from __future__ import annotations

from typing import Any

from ..networks.spectral import SpectralConfig

_LEVELS = (5, 10, 20, 50)

_TEXT = """---
library_name: eigenprobe
license: bsd-3-clause
tags: [point-cloud, spectral-geometry, laplacian]
---
# {name}: spectral bases of point clouds in one pass

```python
import eigenprobe as ep

model = ep.SpectralModel.from_pretrained("{source}")
basis = model.encode(points)  # (n, 3) -> Basis with up to {outputs} vectors
```

**What it is.** {parameters} parameters, stored in float16. A cloud is put in a canonical pose; 49 fixed seed functions
(monomials of the coordinates up to degree 4 and 15 far-apart landmarks) are diffused on its neighbour graph, made
orthonormal and sorted; a perceptron and a transformer of {layers} layers, width {width}, correct this crude basis
("feed-forward", `ritz=False`). No eigenproblem is solved up to here. The default `ritz=True` then takes the Ritz
vectors in the span of the {outputs} columns, the 49 seeds and 49 further diffused landmarks (without these last in
batches on a GPU).

**How much of it is the network.** The diffused seeds are a strong start of their own. Feed-forward, the network adds
what lies between "its inputs alone" and "network" in the tables that `eigenprobe reproduce generalisation` prints;
after Ritz, as many diffused seeds without any network (the control "diffused seeds, 148") do equally well.

## Training
- Data: procedural shapes only (implicit surfaces drawn by `eigenprobe.geometry.procedural`, {families}). No mesh, scan
  or evaluation shape was used.
- Objective: the expected reconstruction error of smoothed random probes over all prefixes of the basis (the paper's
  objective in closed form), covariances with heat traces {levels}{alignment}. No eigenvectors were used as
  targets{targets}.
- Sizes: clouds of {low} to {high} points, about {tokens} points in a batch; seed {seed}.
- Optimiser: {optimiser}; averaged weights; {precision}.
- Run: {steps} steps in {minutes:.1f} minutes of training on {device}, every prepared batch seen {passes} times.
  Recipe: `recipes/pretrain.yaml`.

## Validation curve
Held-out procedural shapes, |cosine| with the closed form on the same graph, mean over i <= k.

{curve}
{results}
## Limits
- Points in three dimensions, {fewest} and more; trained between {low} and {high}. Above 8192 points a subset is the
  context.
- Feed-forward vectors mix where eigenvalues are close, the more the higher k; use the default `ritz=True` for anything
  that needs single eigenvectors, and `refine=1` or more (or `method="direct"`) for the last digits.
- On few points (500) or with noise of a percent of the diameter single vectors swap and mix, as those of the closed
  form on the same points do.
- For one cloud on a processor `method="direct"` is both faster and exact; the model is for batches on a GPU, and for
  values at new points.
- Sheets closer to each other than the spacing of the points are one sheet to the neighbour graph.
- The pose is fixed by principal axes and skewness: near-symmetric shapes may flip between equivalent poses.
"""


def render(config: SpectralConfig, facts: dict[str, Any], parameters: int, source: str) -> str:
    """The card as Markdown."""
    recipe, history = facts.get("recipe", {}), facts.get("history", [])
    shapes, schedule = recipe.get("shapes", {}), recipe.get("schedule", {})
    low, high = shapes.get("sizes", ("?", "?"))
    last = history[-1] if history else {}
    share = recipe.get("alignment", 0)
    return _TEXT.format(
        name=source,
        source=source,
        outputs=config.outputs,
        parameters=f"{parameters / 1e6:.1f} million",
        layers=config.layers,
        width=config.width,
        families=", ".join(shapes["families"]) if shapes.get("families") else "all families",
        levels=", ".join(f"{level:g}" for level in recipe.get("levels", [])) or "?",
        alignment=f", plus {share:g} times the misalignment with the span's own Ritz vectors" if share else "",
        targets=" from outside the network's own span" if share else "",
        low=low,
        high=high,
        tokens=shapes.get("tokens", "?"),
        seed=recipe.get("seed", "?"),
        optimiser=schedule.get("optimiser", "?"),
        precision=recipe.get("precision", "?"),
        passes=recipe.get("passes", 1),
        steps=last.get("step", "?"),
        minutes=last.get("seconds", 0) / 60,
        device=facts.get("device", "?"),
        curve=_curve(history),
        results=_results(facts.get("results", {})),
        fewest=64,
    )


def _curve(history: list[dict[str, Any]]) -> str:
    if not history:
        return "(none)\n"
    levels = [level for level in _LEVELS if f"cosine{level}" in history[-1]]
    head = ["step", "minutes", *(f"k<={k}" for k in levels), *(f"Ritz k<={k}" for k in levels), "excess loss"]
    lines = ["| " + " | ".join(head) + " |", "|" + "--:|" * len(head)]
    chosen = history if len(history) <= 14 else [*history[:: max(1, len(history) // 12)], history[-1]]
    for row in chosen:
        values = [str(row["step"]), f"{row['seconds'] / 60:.1f}"]
        values += [f"{row[f'cosine{k}']:.3f}" for k in levels] + [f"{row[f'ritz_cosine{k}']:.3f}" for k in levels]
        lines.append("| " + " | ".join([*values, f"{row['excess']:.4f}"]) + " |")
    return "\n".join(lines) + "\n"


def _results(results: dict[str, Any]) -> str:
    """`results`: a title to a Markdown table."""
    return "".join(f"\n## {title}\n{table}\n" for title, table in results.items())
