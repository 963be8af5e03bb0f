"""What convolutions, pools and a step with them cost, beside TensorFlow.

    python -m benchmarks.convolutions [--quick] [--json FILE] [--python PATH]...

All systems run the same program, `convolutions_rank`, with one thread each and 50
images: `kit.tf1`, `tensorflow.compat.v1` of TensorFlow 2, and that of TensorFlow 1 from
an interpreter that has it. Their runs alternate. Speed is TensorFlow's time over ours.
"""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from benchmarks.peers import find_peers
from benchmarks.rank_group import RanksFailed, rank_group
from benchmarks.results import Table, arguments, median, ratio, report

RANK = "benchmarks.convolutions_rank"
GOAL = 0.8
PEERS = ("tensorflow", "tensorflow1")
CASES = (
    "5x5x1x32 result",
    "5x5x1x32 by filters",
    "5x5x32x64 result",
    "5x5x32x64 by images",
    "5x5x32x64 by filters",
    "max_pool",
    "max_pool and gradient",
    "avg_pool",
    "avg_pool and gradient",
    "step",
)
_REPEATS = 5
_CLOSE = 1e-3  # float32, summed in another order

Times = dict[str, dict[str, list[float]]]  # case, system


def compare(pythons: list[str], rounds: int, cases: tuple[str, ...] = CASES) -> Times:
    """Return the milliseconds of all runs: case -> system -> list.

    Raises `RanksFailed` when the systems' networks do not learn alike.
    """
    took: Times = {case: {} for case in cases}
    with ExitStack() as stack:
        groups = [stack.enter_context(rank_group("kit", RANK, 1, "kit"))]
        for name, peer in find_peers(pythons, PEERS).items():
            theirs = rank_group(name, RANK, 1, "tensorflow", python=peer.python)
            groups.append(stack.enter_context(theirs))
        losses = [group.order(do="losses", steps=3)[0] for group in groups]
        if not np.allclose(losses, losses[0], rtol=_CLOSE):
            raise RanksFailed(f"the networks lose differently: {losses}")
        for turn in range(rounds + 1):
            for case in cases:
                for group in groups:
                    times = group.order(do="measure", case=case, repeats=_REPEATS)[0]
                    kept = took[case].setdefault(group.name, [])
                    kept += times if turn else []  # the first turn warms up
    return took


def _row(case: str, took: dict[str, list[float]]) -> tuple[str, ...]:
    ours = median(took["kit"])
    row = [case, f"{ours:.2f}"]
    for name in PEERS:
        theirs = median(took.get(name, []))
        row += [f"{theirs:.2f}" if theirs == theirs else "missing", ratio(theirs, ours)]
    return tuple(row)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.quick else 10)
    took = compare(options.python, rounds)
    table = Table(
        "Convolutions and pools, median milliseconds of processor time",
        (
            "50 images and one thread. A layer is rows x columns x channels in x "
            "channels out, pools are of 28 x 28 x 32, a step is that of a network for "
            f"MNIST with two such layers. The goal is {GOAL:g} of TensorFlow's speed.",
        ),
        ("what is run", "kit", "TensorFlow 2", "speed", "TensorFlow 1", "speed"),
        tuple(_row(case, took[case]) for case in CASES),
    )
    report(table, {"milliseconds": took}, options.json)


if __name__ == "__main__":
    main()
