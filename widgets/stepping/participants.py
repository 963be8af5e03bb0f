"""Which tasks take part in a stepper's exchange, and with which numbers.

Pure: it checks what the user asks for, makes a layout and a group of it, and works out
what the formulas give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.exchange.layout import TRAINED, Layout, Spec, lay_out
from kit.exchange.plan import Group
from kit.exchange.ports.memory import Array
from kit.exchange.topologies.parameter_placement import shards_of
from kit.exchange.topologies.topology import Topology, by_name, per_member
from kit.groups.replay import ReplayedCall

MOST_WORKERS = 8  # more rows and columns than that cannot be read
MOST_SERVERS = 4
MOST_ELEMENTS = 4096


@dataclass(frozen=True)
class Setting:
    """An exchange that has not begun; `values` are flat, one array a worker."""

    topology: Topology
    layout: Layout
    group: Group
    names: tuple[str, ...]
    values: tuple[Array, ...]


def setting(
    topology: str,
    n: int | None = None,
    size: int | None = None,
    values: Sequence[Any] | None = None,
    n_ps: int | None = None,
) -> Setting:
    """Return the exchange that a user asks for.

    Raises `InvalidArgumentError` for an unknown topology, for numbers that are too
    large to show or do not fit together, and for values that cannot be added.

    >>> made = setting("ps", n=2, size=3)
    >>> made.names, [value.tolist() for value in made.values]
    (('ps:0', 'worker:0', 'worker:1'), [[1.0, 4.0, 7.0], [8.0, 2.0, 5.0]])
    """
    chosen = by_name(topology)
    own = _arrays(values, n, size) if values is not None else _digits(n, size)
    n_workers = len(own)
    if n_ps is None:
        n_ps = int(chosen.needs_ps)
    _check(
        "server",
        n_ps,
        int(chosen.needs_ps),
        MOST_SERVERS * chosen.needs_ps,
    )
    layout = lay_out([Spec("gradient", own[0].shape, str(own[0].dtype))], n_workers)
    workers = tuple(range(n_ps, n_ps + n_workers))
    group = Group(tuple(range(n_ps)), workers, shards_of(layout, n_ps))
    names = [f"ps:{i}" for i in range(n_ps)]
    names += [f"worker:{i}" for i in range(n_workers)]
    return Setting(chosen, layout, group, tuple(names), tuple(own))


def _digits(n: int | None, size: int | None) -> list[Array]:
    """Return numbers from 1 to 9, small enough to add in your head."""
    n = 3 if n is None else n
    _check("worker", n, 1, MOST_WORKERS)
    size = 2 * n if size is None else size
    _check("element", size, 0, MOST_ELEMENTS)
    places = np.arange(size)
    return [((7 * r + 3 * places) % 9 + 1).astype(np.float32) for r in range(n)]


def _arrays(values: Sequence[Any], n: int | None, size: int | None) -> list[Array]:
    arrays = [np.asarray(value) for value in values]
    _check("worker", len(arrays), 1, MOST_WORKERS)
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"the workers' gradients have the shapes "
            f"{', '.join(map(str, sorted(shapes)))}; to be added up they need one."
        )
    elements = arrays[0].size
    _check("element", elements, 0, MOST_ELEMENTS)
    for name, asked, actual in (("n", n, len(arrays)), ("size", size, elements)):
        if asked not in (None, actual):
            raise InvalidArgumentError(
                f"{name}={asked} was asked for, but the values are {actual}; leave "
                f"{name} out, it follows from the values."
            )
    dtype = _dtype(np.result_type(*arrays))
    return [array.astype(dtype).reshape(-1) for array in arrays]


def _dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to add in: whole numbers become float32."""
    if dtype.kind in "biu":
        return np.dtype(np.float32)
    if dtype.name not in TRAINED:
        raise InvalidArgumentError(
            f"values of type {dtype} cannot be gradients; give arrays of float32, "
            f"float64 or whole numbers."
        )
    return dtype


def _check(what: str, number: int, least: int, most: int) -> None:
    if not isinstance(number, int | np.integer) or not least <= number <= most:
        allowed = f"from {least} to {most}" if least < most else f"{least}"
        raise InvalidArgumentError(
            f"{number!r} {what}s cannot be stepped through; the number of {what}s here "
            f"is {allowed}. For more, train with kit.train and look at its board."
        )


# --------------------------------------------------------------------------------------
# How many messages and bytes an exchange takes, as its topology says. As in the meter,
# only messages with a payload count: an empty one that keeps two members in step does
# not.


@dataclass(frozen=True)
class Formula:
    """What a whole exchange costs; `sent` and `received` are bytes of each member."""

    n_bytes: int
    sent: tuple[int, ...]
    received: tuple[int, ...]
    n_messages: int
    text: str


def formula_of(call: ReplayedCall) -> Formula:
    """Return what a call of a group costs by the formulas."""
    return Formula(call.n_bytes, call.sent, call.received, call.n_messages, "")


def formula(topology: Topology, layout: Layout, group: Group) -> Formula:
    """Return what an exchange costs by the formulas."""
    traffic = topology.traffic(layout, group)
    both = [per_member(traffic, member) for member in group.members]
    count = topology.n_messages(layout, group)
    text = topology.cost_in_words(len(group.workers))
    if not count:
        text = "One worker alone has the sum already, and an empty gradient no sum."
    return Formula(
        sum(traffic.values()),
        tuple(sent for sent, _ in both),
        tuple(received for _, received in both),
        count,
        text,
    )
