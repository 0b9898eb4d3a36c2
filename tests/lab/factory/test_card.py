"""The card of a model says what it was trained on and how."""

from __future__ import annotations

from eigenprobe.networks.spectral import SpectralConfig
from eigenprobe_lab.factory.card import render


def test_a_card_is_filled_from_the_facts() -> None:
    row = {"step": 500, "seconds": 120.0, "excess": 0.01}
    row |= {f"{kind}cosine{k}": 0.9 for kind in ("", "ritz_") for k in (5, 10)}
    recipe = {"seed": 3, "shapes": {"sizes": [100, 200]}, "levels": [30, 10]}
    facts = {"recipe": recipe, "history": [row], "device": "a processor"}
    text = render(SpectralConfig(outputs=16), facts, 2_500_000, "tiny")
    assert "procedural shapes only" in text and "seed 3" in text and "2.5 million" in text
    assert "500 steps in 2.0 minutes of training on a processor" in text
    assert "| 500 | 2.0 | 0.900 | 0.900 | 0.900 | 0.900 | 0.0100 |" in text
    assert 'from_pretrained("tiny")' in render(SpectralConfig(), {}, 1, "tiny")
