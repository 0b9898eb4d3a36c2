"""Run a command of eigenprobe and keep its numbers as a file of results.

    python -m benchmarks.keep surfaces.json evaluate surfaces $DATA/mpz14 --no-figures

The command writes its report into a temporary folder; facts and rows of the JSON there are stored
with the facts of the run. Patterns of file names are expanded here, so that the command stays
short.
"""

from __future__ import annotations

import argparse
import glob
import json
import tempfile
from pathlib import Path

from benchmarks.catalogue import RESULTS
from benchmarks.record import facts, write
from eigenprobe.cli import main as eigenprobe


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=RESULTS, metavar="FILE")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args()
    words = [
        found
        for word in options.command
        for found in (sorted(glob.glob(word)) if "*" in word else [word])
    ]
    with tempfile.TemporaryDirectory() as folder:
        if code := eigenprobe([*words, "--out", folder]):
            raise SystemExit(code)
        (report,) = Path(folder).glob("*.json")
        found = json.loads(report.read_text())
    given = {"words": [Path(word) if Path(word).exists() else word for word in words]}
    write(options.name, facts("keep", "cpu", given, peers=("robust_laplacian",)) | found)


if __name__ == "__main__":
    main()
