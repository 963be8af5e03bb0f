"""Random programs of a group, and what plain numpy makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import kit

DTYPES = ("float32", "float64", "int16", "complex64", "uint8", "bfloat16")
UFUNCS: dict[str, Any] = {
    **{"sum": np.add, "mean": np.add, "prod": np.multiply},
    **{"max": np.maximum, "min": np.minimum},
}
ALGORITHMS = (
    *(None, "mesh", "ring-whole", "hierarchical"),
    *("tree", "recursive-doubling"),
)
# Those that add in an order of their own: for up to six tasks, as nested brackets.
ORDERS: dict[str, list[Any]] = {
    "tree": [
        *(0, (0, 1), (0, 1, 2), (0, (1, 3), 2)),
        *((0, (1, 3, 4), 2), (0, (1, 3, 4), (2, 5))),
    ],
    "recursive-doubling": [
        *(0, (0, 1), ((0, 1), 2), ((0, 1), (2, 3))),
        *((((0, 1), 2), (3, 4)), (((0, 1), (2, 3)), (4, 5))),
    ],
}


class Step(NamedTuple):
    """One step of all tasks; what each gives follows from `seed` and its rank."""

    what: str
    dtype: str
    size: int
    seed: int
    root: int
    op: str
    algorithm: str | None = None


def steps(n: int) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        st.sampled_from(sorted(PLAYED)),
        st.sampled_from(DTYPES),
        st.integers(0, 40),
        st.integers(0, 1000),
        st.integers(0, n - 1),
        st.sampled_from(sorted(UFUNCS)),
        st.sampled_from(ALGORITHMS),
    ).map(_fitting)


def _fitting(step: Step) -> Step:
    if step.dtype == "complex64" and step.op in ("max", "min"):
        return step._replace(op="sum")
    return step


def programs(n: int, most: int = 6) -> st.SearchStrategy[list[Step]]:
    return st.lists(steps(n), min_size=1, max_size=most)


def value(step: Step, rank: int, more: int = 0) -> Any:
    rng, size = np.random.default_rng((step.seed, rank, more)), step.size + more
    if np.dtype(step.dtype).kind in "iu":
        return rng.integers(0, 100, size).astype(step.dtype)
    return (rng.standard_normal(size) * 9).astype(step.dtype)


def summed(step: Step, values: Sequence[Any], first: int | None = None) -> Any:
    """Add as a training does: piece c begins with task c."""
    n, ufunc = len(values), UFUNCS[step.op]
    if step.op == "mean" and values[0].dtype.kind in "iu":
        values = [value.astype(float) for value in values]
    if step.what == "all_reduce" and step.algorithm in ORDERS:
        whole = _bracketed(ORDERS[step.algorithm][n - 1], values, ufunc)
        return whole / n if step.op == "mean" else whole
    cuts = [np.array_split(item, n) for item in values]
    done = []
    for c in range(n):
        start = c if first is None else first
        total = cuts[start % n][c]
        for hop in range(1, n):
            total = ufunc(total, cuts[(start + hop) % n][c])
        done.append(total)
    whole = np.concatenate(done)
    return whole / n if step.op == "mean" else whole


def _bracketed(order: Any, values: Sequence[Any], ufunc: Any) -> Any:
    if isinstance(order, int):
        return values[order]
    return reduce(ufunc, [_bracketed(item, values, ufunc) for item in order])


def _all_values(step: Step, n: int) -> list[Any]:
    return [value(step, rank) for rank in range(n)]


def _own(step: Step, rank: int) -> Any:
    return value(step, rank, rank)  # of another length on each task


def _row(step: Step, rank: int, n: int) -> list[Any]:
    return [value(step, 100 * rank + to, to) for to in range(n)]


def _even_row(step: Step, rank: int, n: int) -> list[Any]:
    return [value(step, 100 * rank + to) for to in range(n)]


def _play_all_reduce(group: kit.Group, step: Step) -> Any:
    mine = value(step, group.rank)
    return group.all_reduce(mine, step.op, algorithm=step.algorithm)


def _play_scatter(group: kit.Group, step: Step) -> Any:
    is_root = group.rank == step.root
    mine = _row(step, step.root, group.size) if is_root else None
    return group.scatter(mine, step.root)


def _play_messages(group: kit.Group, step: Step) -> Any:
    n, ahead = group.size, 1 + step.root % max(1, group.size - 1)
    to, source = (group.rank + ahead) % n, (group.rank - ahead) % n
    pending = group.isend(_own(step, group.rank), to, tag=step.seed)
    result = group.receive(source, tag=step.seed)
    pending.wait()
    return result


def _play_anyone(group: kit.Group, step: Step) -> Any:
    messages = []
    if group.rank != step.root:
        group.send(_own(step, group.rank), step.root, tag=7)
    else:
        messages = [group.receive_message(tag=7) for _ in range(group.size - 1)]
    # Without it, a fast task's message of the next step could be taken for this step's.
    group.barrier()
    if group.rank != step.root:
        return None
    return [message.value for message in sorted(messages, key=lambda item: item.source)]


def _results(step: Step, n: int) -> list[Any]:
    """Return what each task gets."""
    root, everyone = step.root, range(n)
    match step.what:
        case "all_reduce":
            return [summed(step, _all_values(step, n))] * n
        case "reduce":
            total = summed(step, _all_values(step, n))
            return [total if rank == root else None for rank in everyone]
        case "reduce_scatter":
            rows = [_even_row(step, rank, n) for rank in everyone]
            return [
                summed(step, [row[rank] for row in rows], rank) for rank in everyone
            ]
        case "broadcast":
            return [value(step, root)] * n
        case "gather":
            owns = [_own(step, rank) for rank in everyone]
            return [owns if rank == root else None for rank in everyone]
        case "all_gather":
            return [[_own(step, rank) for rank in everyone]] * n
        case "scatter":
            return _row(step, root, n)
        case "all_to_all":
            rows = [_row(step, rank, n) for rank in everyone]
            return [[row[rank] for row in rows] for rank in everyone]
        case "messages":
            ahead = 1 + root % max(1, n - 1)
            return [_own(step, (rank - ahead) % n) for rank in everyone]
        case "anyone":
            others = [_own(step, rank) for rank in everyone if rank != root]
            return [others if rank == root else None for rank in everyone]
    return [None] * n


def _bytes(step: Step, n: int) -> int:
    size = np.dtype(step.dtype).itemsize
    is_summed = step.what in ("all_reduce", "reduce", "reduce_scatter")
    if is_summed and step.op == "mean" and np.dtype(step.dtype).kind in "iu":
        size = 8  # added as float64
    whole, root, everyone = step.size * size, step.root, range(n)
    owns = [(step.size + rank) * size for rank in everyone]
    others = sum(own for rank, own in enumerate(owns) if rank != root)
    match step.what:
        case "all_reduce" if step.algorithm == "ring-whole":
            return n * (n - 1) * whole
        case "all_reduce" if step.algorithm == "recursive-doubling":
            return [0, 2, 4, 8, 10, 12][n - 1] * whole
        case "all_reduce":
            return 2 * (n - 1) * whole
        case "reduce" | "broadcast":
            return (n - 1) * whole
        case "reduce_scatter":
            return n * (n - 1) * whole
        case "gather" | "scatter" | "anyone":
            return others
        case "all_gather":
            return (n - 1) * sum(owns)
        case "all_to_all":
            return (n - 1) * sum(owns)
        case "messages":
            return sum(owns)
    return 0


PLAYED: dict[str, Callable[[kit.Group, Step], Any]] = {
    "all_reduce": _play_all_reduce,
    "reduce": lambda g, s: g.reduce(value(s, g.rank), s.root, s.op),
    "reduce_scatter": lambda g, s: g.reduce_scatter(_even_row(s, g.rank, g.size), s.op),
    "broadcast": lambda g, s: g.broadcast(
        value(s, s.root) if g.rank == s.root else None, s.root
    ),
    "gather": lambda g, s: g.gather(_own(s, g.rank), s.root),
    "all_gather": lambda g, s: g.all_gather(_own(s, g.rank)),
    "scatter": _play_scatter,
    "all_to_all": lambda g, s: g.all_to_all(_row(s, g.rank, g.size)),
    "messages": _play_messages,
    "anyone": _play_anyone,
    "barrier": lambda g, _: g.barrier(),
}


def play(program: Sequence[Step]) -> Callable[[kit.Group], list[Any]]:
    """Return a task's program; ends with a barrier."""

    def run(group: kit.Group) -> list[Any]:
        result = [PLAYED[step.what](group, step) for step in program]
        group.barrier()
        return result

    return run


def results(program: Sequence[Step], n: int) -> list[list[Any]]:
    """Return what each task gets in each step."""
    made = [_results(step, n) for step in program]
    return [[row[rank] for row in made] for rank in range(n)]


def n_bytes(program: Sequence[Step], n: int) -> int:
    """Return the bytes on all links."""
    return sum(_bytes(step, n) for step in program)


def same(result: Any, wanted: Any) -> bool:
    """Whether two results are the same bits."""
    if isinstance(wanted, list):
        return len(result) == len(wanted) and all(map(same, result, wanted))
    if wanted is None:
        return result is None
    alike = result.dtype == wanted.dtype and result.shape == wanted.shape
    return bool(alike and result.tobytes() == wanted.tobytes())
