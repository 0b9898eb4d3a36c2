"""One piece of the pretraining run behind the shipped weights, on one GPU, by the recipe.

    python benchmarks/pretrain_run.py --folder /tmp/ckpt --piece 9 --minutes 14 --out out/pretrain

Goes on from the checkpoint in `--folder` if there is one. Leaves the averaged weights so far (float16 safetensors), the
history and, with `--evaluate`, cosines on unseen shapes under `--out`; so does `eigenprobe train recipes/pretrain.yaml`
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import time
from dataclasses import replace
from pathlib import Path

from eigenprobe.pretrained.pretrain import pretrain
from eigenprobe.training.recipes import load_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/pretrain.yaml"))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--piece", type=float, default=0.0, help="minutes of this command")
    parser.add_argument("--minutes", type=float, help="minutes of the whole run, over all pieces")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--evaluate", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("changes", nargs="*", help="key=value, overriding the recipe")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    settings = load_recipe(options.recipe, options.changes)
    schedule = replace(settings.schedule, piece=options.piece)
    if options.minutes:
        schedule = replace(schedule, minutes=options.minutes)
    began = time.monotonic()
    model = pretrain(replace(settings, schedule=schedule), options.folder, device=options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    shutil.copytree(model, options.out / "model", dirs_exist_ok=True)
    shutil.copy(options.folder / "history.json", options.out / "history.json")
    facts = json.loads((options.folder / "history.json").read_text())
    for row in facts["history"]:
        print({k: round(v, 3) for k, v in row.items() if "matched" not in k}, flush=True)
    print(f"skipped {facts['skipped']}, this piece {time.monotonic() - began:.0f} s on {facts['device']}")
    if options.evaluate:
        import torch
        from pretrain_trial import on_shapes

        from eigenprobe.pretrained.store import read

        device = "cuda" if torch.cuda.is_available() else "cpu"
        result = on_shapes(read(model)[0].to(device).eval(), options.evaluate, device)
        (options.out / "shapes.json").write_text(json.dumps(result, indent=1))
        print(json.dumps(result))


if __name__ == "__main__":
    main()
