"""The card of a pretrained model: `card.md` filled from the facts of the run."""

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from eigenprobe.host.files import Facts
from eigenprobe.networks.spectral import SpectralConfig

LEVELS = (5, 10, 20, 50)


def render(config: SpectralConfig, facts: Facts, parameters: int, source: str) -> str:
    """The card as Markdown."""
    recipe, history = facts.get("recipe", {}), facts.get("history", [])
    shapes, schedule = recipe.get("shapes", {}), recipe.get("schedule", {})
    low, high = shapes.get("sizes", ("?", "?"))
    last, share = history[-1] if history else {}, recipe.get("alignment", 0)
    card = defaultdict(
        lambda: "?", {"passes": 1} | schedule | shapes | recipe | asdict(config) | facts
    )
    card |= {
        "name": source,
        "source": source,
        "low": low,
        "high": high,
        "fewest": 64,
        "curve": _curve(history),
    }
    card |= {"parameters": f"{parameters / 1e6:.1f} million", "steps": last.get("step", "?")}
    card |= {
        "minutes": last.get("seconds", 0) / 60,
        "targets": " from outside the network's own span" if share else "",
    }
    card["families"] = ", ".join(shapes["families"]) if shapes.get("families") else "all families"
    card["levels"] = ", ".join(f"{level:g}" for level in recipe.get("levels", [])) or "?"
    card["alignment"] = (
        f", plus {share:g} times the misalignment with the span's own Ritz vectors" if share else ""
    )
    card["results"] = "".join(
        f"\n## {title}\n{table}\n" for title, table in facts.get("results", {}).items()
    )
    return (Path(__file__).parent / "card.md").read_text().format_map(card)


def _curve(history: list[Facts]) -> str:
    if not history:
        return "(none)\n"
    levels = [level for level in LEVELS if f"cosine{level}" in history[-1]]
    head = [
        "step",
        "minutes",
        *(f"k<={k}" for k in levels),
        *(f"Ritz k<={k}" for k in levels),
        "excess loss",
    ]
    lines = [head, ["--:"] * len(head)]
    for row in (
        history if len(history) <= 14 else [*history[:: max(1, len(history) // 12)], history[-1]]
    ):
        cosines = [f"{row[f'{kind}cosine{k}']:.3f}" for kind in ("", "ritz_") for k in levels]
        lines.append(
            [str(row["step"]), f"{row['seconds'] / 60:.1f}", *cosines, f"{row['excess']:.4f}"]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
