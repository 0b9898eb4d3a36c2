"""The model card: `card.md` filled from the facts of a run, so that it cannot say anything the run did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..networks.spectral import SpectralConfig

_LEVELS = (5, 10, 20, 50)

_TEXT = Path(__file__).with_name("card.md")


def render(config: SpectralConfig, facts: dict[str, Any], parameters: int, source: str) -> str:
    """The card as Markdown."""
    recipe, history = facts.get("recipe", {}), facts.get("history", [])
    shapes, schedule = recipe.get("shapes", {}), recipe.get("schedule", {})
    low, high = shapes.get("sizes", ("?", "?"))
    last = history[-1] if history else {}
    share = recipe.get("alignment", 0)
    return _TEXT.read_text().format(
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
