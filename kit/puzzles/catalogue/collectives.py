"""The first puzzles: how arrays get to all tasks, and how they are added up.

Pure. S is 400,000 bytes, so a whole array takes four ms on the puzzles' clock.
"""

from __future__ import annotations

import numpy as np

from kit.puzzles.figures import Figures
from kit.puzzles.puzzle import Arrays, Given, Puzzle
from kit.puzzles.task import Array

N = 4
_SIZE = 100_000  # float32, so the bytes are four times as many
S = 4 * _SIZE
_LEAVES = 8  # tasks of the tree
_SHORT = 1_000


def workers(n: int) -> tuple[str, ...]:
    """Return the names of n workers."""
    return tuple(f"worker:{k}" for k in range(n))


def ring(n: int) -> frozenset[tuple[int, int]]:
    """Return the links of a ring: from each task to the next one.

    >>> sorted(ring(3))
    [(0, 1), (1, 2), (2, 0)]
    """
    return frozenset((k, (k + 1) % n) for k in range(n))


def tree(n: int) -> frozenset[tuple[int, int]]:
    """Return the links of a binomial tree: k and k without its lowest bit.

    >>> sorted(tree(4))
    [(0, 1), (0, 2), (1, 0), (2, 0), (2, 3), (3, 2)]
    """
    up = [(k, k & (k - 1)) for k in range(1, n)]
    return frozenset([*up, *((b, a) for a, b in up)])


def normal(dice: np.random.Generator, *shape: int) -> Array:
    """Return an array of float32."""
    return dice.normal(size=shape).astype(np.float32)


def _one_x(dice: np.random.Generator) -> Given:
    return [{"x": normal(dice, _SIZE)}, *({} for _ in range(N - 1))]


def _all_x(dice: np.random.Generator) -> Given:
    return [{"x": normal(dice, _SIZE)} for _ in range(N)]


def _short_x(dice: np.random.Generator) -> Given:
    return [{"x": normal(dice, _SHORT)} for _ in range(_LEAVES)]


def _parts(dice: np.random.Generator) -> Given:
    return [{"part": normal(dice, _SIZE // N)} for _ in range(N)]


def _sum(inputs: Given) -> Array:
    return np.asarray(
        np.sum([arrays["x"] for arrays in inputs], axis=0, dtype=np.float64)
    )


def _sum_everywhere(inputs: Given) -> Given:
    return [{"sum": _sum(inputs)} for _ in inputs]


def _part_of_the_sum(inputs: Given) -> Given:
    return [{"part": part} for part in np.split(_sum(inputs), len(inputs))]


def _all_parts(inputs: Given) -> Given:
    return [
        {"all": np.concatenate([arrays["part"] for arrays in inputs])} for _ in inputs
    ]


def _x_of_each(inputs: Given, rank: int, name: str) -> Arrays:
    names = workers(len(inputs))
    if name == "part":
        own = [np.split(arrays["x"], len(inputs))[rank] for arrays in inputs]
    else:
        own = [arrays["x"] for arrays in inputs]
    return dict(zip(names, own, strict=True))


FIRST_MESSAGE = Puzzle(
    name="first message",
    goal=(
        "worker:0 holds 'x', an array of S = 400,000 bytes. In the end worker:1 holds "
        "it, too."
    ),
    tasks=workers(2),
    inputs=lambda dice: [{"x": normal(dice, _SIZE)}, {}],
    wanted=lambda inputs: [{}, {"x": inputs[0]["x"]}],
    target=Figures(n_bytes=S, n_in_a_row=1, memory=S, idle=0.0),
    best_known={"one message": Figures(n_bytes=S, n_in_a_row=1, memory=S, idle=0.0)},
)

BROADCAST = Puzzle(
    name="broadcast",
    goal=(
        "worker:0 of four holds 'x', an array of S = 400,000 bytes. In the end all "
        "hold it."
    ),
    tasks=workers(N),
    inputs=_one_x,
    wanted=lambda inputs: [{"x": inputs[0]["x"]} for _ in inputs],
    target=Figures(n_bytes=3 * S, n_in_a_row=3, memory=S),
    best_known={
        "binomial tree": Figures(n_bytes=2 * S, n_in_a_row=2, memory=S, idle=0.25),
        "chain": Figures(n_bytes=S, n_in_a_row=3, memory=S, idle=0.5),
    },
)

REDUCE = Puzzle(
    name="reduce",
    goal=(
        "Each of four workers holds 'x', S = 400,000 bytes. In the end worker:0 holds "
        "'sum', the sum of all four."
    ),
    tasks=workers(N),
    inputs=_all_x,
    wanted=lambda inputs: [{"sum": _sum(inputs)}, *({} for _ in inputs[1:])],
    target=Figures(n_bytes=3 * S, n_in_a_row=3, memory=2 * S),
    best_known={
        "binomial tree": Figures(n_bytes=2 * S, n_in_a_row=2, memory=2 * S, idle=0.25),
        "chain": Figures(n_bytes=S, n_in_a_row=3, memory=2 * S, idle=0.5),
    },
    addends=_x_of_each,
)

ALL_REDUCE = Puzzle(
    name="all-reduce",
    goal=(
        "Each of four workers holds 'x', S = 400,000 bytes. In the end each holds "
        "'sum', the sum of all four."
    ),
    tasks=workers(N),
    inputs=_all_x,
    wanted=_sum_everywhere,
    target=Figures(n_bytes=3 * S, n_in_a_row=6, memory=2 * S),
    best_known={
        "doubling": Figures(n_bytes=2 * S, n_in_a_row=2, memory=2 * S, idle=0.0),
        "halving": Figures(
            n_bytes=3 * S // 2, n_in_a_row=4, memory=3 * S // 2, idle=0.0
        ),
    },
    addends=_x_of_each,
)

REDUCE_SCATTER = Puzzle(
    name="ring reduce-scatter",
    goal=(
        "Each of four workers holds 'x', S = 400,000 bytes. In the end worker k holds "
        "'part', the k-th quarter of the sum. A worker can send only to the next one, "
        "the last worker only to worker:0."
    ),
    tasks=workers(N),
    inputs=_all_x,
    wanted=_part_of_the_sum,
    target=Figures(n_bytes=3 * S // 4, n_in_a_row=3, memory=3 * S // 2),
    best_known={
        "round the ring": Figures(
            n_bytes=3 * S // 4, n_in_a_row=3, memory=5 * S // 4, idle=0.0
        )
    },
    links=ring(N),
    addends=_x_of_each,
)

ALL_GATHER = Puzzle(
    name="ring all-gather",
    goal=(
        "Worker k of four holds 'part', the k-th quarter of an array of S = 400,000 "
        "bytes. In the end each holds 'all', the four quarters in order. A worker can "
        "send only to the next one."
    ),
    tasks=workers(N),
    inputs=_parts,
    wanted=_all_parts,
    target=Figures(n_bytes=3 * S // 4, n_in_a_row=3, memory=3 * S // 2),
    best_known={
        "round the ring": Figures(
            n_bytes=3 * S // 4, n_in_a_row=3, memory=5 * S // 4, idle=0.0
        )
    },
    links=ring(N),
)

RING_ALL_REDUCE = Puzzle(
    name="ring all-reduce",
    goal=(
        "Each of four workers holds 'x', S = 400,000 bytes. In the end each holds "
        "'sum', the sum of all four. A worker can send only to the next one."
    ),
    tasks=workers(N),
    inputs=_all_x,
    wanted=_sum_everywhere,
    target=Figures(n_bytes=3 * S // 2, n_in_a_row=6, memory=3 * S // 2),
    best_known={
        "round the ring": Figures(
            n_bytes=3 * S // 2, n_in_a_row=6, memory=5 * S // 4, idle=0.0
        )
    },
    links=ring(N),
    addends=_x_of_each,
)

TREE = Puzzle(
    name="tree all-reduce",
    goal=(
        "Each of eight workers holds 'x', of only 4,000 bytes, so what counts is how "
        "many messages wait for each other. In the end each holds 'sum'. The links "
        "form a tree: worker:0 has the children 1, 2 and 4, worker:2 has 3, worker:4 "
        "has 5 and 6, and worker:6 has 7."
    ),
    tasks=workers(_LEAVES),
    inputs=_short_x,
    wanted=_sum_everywhere,
    target=Figures(n_bytes=3 * 4 * _SHORT, n_in_a_row=6, memory=3 * 4 * _SHORT),
    best_known={
        "binomial tree": Figures(
            n_bytes=3 * 4 * _SHORT, n_in_a_row=6, memory=2 * 4 * _SHORT, idle=5 / 12
        )
    },
    bytes_per_ms=4.0 * _SHORT,
    links=tree(_LEAVES),
    addends=_x_of_each,
)

COLLECTIVES = (
    FIRST_MESSAGE,
    BROADCAST,
    REDUCE,
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    RING_ALL_REDUCE,
    TREE,
)
