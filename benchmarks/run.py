"""Run all benchmarks and write what they found onto one page: `make bench`.

    python -m benchmarks.run [--quick] [--python PATH]... [--results FOLDER]

Each writes `results/NAME.json`; their tables together are `results/results.md`, and
with their plots `results/index.html`. One that fails is reported in its place, and does
not keep the others from running. Those in `ALONE` need more
than the others, and are run only where they are named:

    make bench ARGS="--only startup_hosts"
    python -m benchmarks.run --only startup_hosts
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.page import write
from benchmarks.rank_group import ROOT
from benchmarks.results import FOLDER, Table, arguments, machine

BENCHMARKS = (
    *("allreduce", "directions", "scaling", "many_parameters"),
    *("training", "overlap", "graph_step", "convolutions", "overhead", "recording"),
    *("startup", "roundtrip"),
    *(
        "session",
        "memory",
        "long_run",
        "checkpoints",
        "board",
        "switch_pause",
        "losses",
        "resizes",
        "compression",
        "verdicts",
        "hosts",
    ),
    *("growth", "rehearsal"),
)
ALONE = {  # run only where they are named, and why
    "startup_hosts": "needs root, sshd, and Slurm for its rows",
    "cuts": "needs root, and cuts lines for many minutes",
    "reloads": "needs JupyterLab and a browser",
    "ddp": "needs torch",
    "on_gpu": "needs a GPU and cupy",
}


def run_one(name: str, folder: Path, passed_on: list[str]) -> str:
    """Run a benchmark in a process of its own; returns its table as Markdown."""
    path = folder / f"{name}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(path)]
    done = subprocess.run(
        [*command, *passed_on], cwd=ROOT, text=True, stderr=subprocess.PIPE
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"{name} failed: {done.stderr}", file=sys.stderr)
        return f"## {name}\n\nfailed: {why}"
    return Table(*json.loads(path.read_text())["table"].values()).to_markdown()


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--results", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument(
        "--only", nargs="+", choices=(*BENCHMARKS, *ALONE), default=BENCHMARKS
    )
    options, passed_on = parser.parse_known_args()  # the rest is for the benchmarks
    folder = options.results.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    passed_on += ["--quick"] if options.quick else []
    for python in options.python:
        passed_on += ["--python", python]
    tables = [run_one(name, folder, passed_on) for name in options.only]
    facts = ", ".join(f"{key} {value}" for key, value in machine().items())
    text = "\n\n".join([f"# Benchmarks\n\nMachine: {facts}.", *tables]) + "\n"
    (folder / "results.md").write_text(text)
    print(f"\nAll tables: {folder / 'results.md'}, with plots: {write(folder)}")
    if options.only == BENCHMARKS:
        for name, why in ALONE.items():
            print(f"Left out: {name}, which {why} (--only {name}).")
    return 1 if "\nfailed: " in text else 0


if __name__ == "__main__":
    sys.exit(main())
