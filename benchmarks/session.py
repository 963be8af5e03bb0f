"""How long one run of a session takes, beside TensorFlow's over its own runtime.

    python -m benchmarks.session [--quick] [--json FILE] [--python PATH]...

Each task is a process, ps:0, worker:0 and worker:1; worker:0 is the target. Its client
is in the same process, or in a fourth one. All values come from variables, so that
nothing can be computed ahead. One run at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from benchmarks.peers import find_peers
from benchmarks.rank_group import RankGroup, RanksFailed, rank_group
from benchmarks.results import Table, arguments, median, ratio, report

RANK = "benchmarks.session_rank"
N_RANKS = 4
GOAL = 0.5


class Case(NamedTuple):
    """What is run, and what it must give."""

    name: str
    about: str
    expected: float | None
    repeats: int


CASES = (
    Case("own", "a value of the target's own task", 1.0, 300),
    Case("other", "a value of another task", 2.0, 300),
    Case("two", "the sum of two other tasks' values", 5.0, 300),
    Case("large", "64 MiB from one other task to the other", None, 4),
)
CLIENTS = {"inside": 1, "beside": 3}  # the rank of the client

Times = dict[str, dict[str, dict[str, list[float]]]]  # client, case, system


@contextmanager
def kit_group() -> Iterator[RankGroup]:
    """Give our four processes, with tasks that know each other."""
    from kit.wire.handshake.credentials import Credentials

    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        rank_group("kit", RANK, N_RANKS, "kit") as started,
    ):
        keys = Credentials.new(certificate=False).to_plain()
        result = started.order(do="listen", places=[folder] * N_RANKS, keys=keys)
        started.order(do="connect", addresses=result)
        yield started


@contextmanager
def tensorflow_group(python: str) -> Iterator[RankGroup]:
    """Give the four processes of the peer."""
    with rank_group(
        "tensorflow", RANK, N_RANKS, "tensorflow", python=python
    ) as started:
        ports = started.order(do="find_port")
        started.order(do="listen", places=ports, keys={})
        started.order(do="connect", addresses=[f"localhost:{port}" for port in ports])
        yield started


def compare(pythons: list[str], rounds: int, cases: tuple[Case, ...] = CASES) -> Times:
    """Return the microseconds of all runs: client -> case -> system -> list."""
    result: Times = {who: {case.name: {} for case in cases} for who in CLIENTS}
    with ExitStack() as stack:
        groups = [stack.enter_context(kit_group())]
        peer = find_peers(pythons, ("tensorflow",)).get("tensorflow")
        if peer is not None:
            groups.append(stack.enter_context(tensorflow_group(peer.python)))
        for turn in range(rounds + 1):
            for who, rank in CLIENTS.items():
                for case in cases:
                    for group in groups:
                        took = measure(group, case, rank)
                        kept = result[who][case.name].setdefault(group.name, [])
                        kept += took if turn else []  # the first turn warms up
    return result


def measure(item: RankGroup, case: Case, rank: int) -> list[float]:
    order = {"case": case.name, "client": rank, "repeats": case.repeats}
    answer = item.order(do="measure", **order)[rank]
    if answer["value"] != case.expected:
        raise RanksFailed(f"{item.name} gives {answer['value']} for {case.about}")
    took: list[float] = answer["us"]
    return took


def row_of(who: str, case: Case, took: dict[str, list[float]]) -> tuple[str, ...]:
    ours = median(took["kit"])
    theirs = median(took.get("tensorflow", []))
    cells = [f"{ours:.0f}", f"{theirs:.0f}" if theirs == theirs else "missing"]
    return (case.about, who, *cells, ratio(ours, theirs))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cases", nargs="+", choices=[item.name for item in CASES])
    options = parser.parse_args()
    cases = tuple(item for item in CASES if item.name in (options.cases or item.name))
    rounds = options.rounds or (2 if options.quick else 8)
    result = compare(options.python, rounds, cases)
    table = Table(
        "One run of a session, median microseconds",
        (
            "inside: the client is in the target's process; beside: in its own. "
            f"The goal is {GOAL:g} times TensorFlow's time.",
        ),
        ("what is run", "client", "kit", "tensorflow", "kit / tensorflow"),
        tuple(
            row_of(who, case, result[who][case.name])
            for who in CLIENTS
            for case in cases
        ),
    )
    report(table, {"microseconds": result}, options.json)


if __name__ == "__main__":
    main()
