"""Which parameter server holds which bytes.

Pure. Parameters are dealt out whole, in the order in which they were given; one larger
than a server's fair share is cut up and spread over all servers. Very many small ones
are first joined with their neighbours, so that the number of messages is bounded.
"""

from __future__ import annotations

from difflib import get_close_matches

from kit.errors import InvalidArgumentError
from kit.exchange.layout import ITEMSIZE, Layout, Range, cut, intersect, merge

STRATEGIES = ("round_robin", "greedy")
_UNITS_A_SERVER = 64

Shards = tuple[tuple[Range, ...], ...]


def shards_of(layout: Layout, n_ps: int, strategy: str = "round_robin") -> Shards:
    """Return the byte ranges of each of `n_ps` parameter servers.

    "round_robin" deals the units out in turn, "greedy" gives each to the server that
    holds the fewest bytes so far (the lower number on a tie). Together the shards cover
    every parameter exactly once. Raises `InvalidArgumentError` for another strategy.
    """
    if strategy not in STRATEGIES:
        near = get_close_matches(strategy, STRATEGIES, 1) or STRATEGIES[:1]
        raise InvalidArgumentError(
            f"no placement is called {strategy!r}; there are {', '.join(STRATEGIES)}. "
            f"Did you mean {near[0]!r}?"
        )
    if not n_ps:
        return ()
    shards: list[list[Range]] = [[] for _ in range(n_ps)]
    loads = [0] * n_ps
    for number, unit in enumerate(_units(layout, n_ps)):
        server = number % n_ps if strategy == "round_robin" else loads.index(min(loads))
        shards[server].append(unit)
        loads[server] += unit.size
    return tuple(_merged(layout, shard) for shard in shards)


def _merged(layout: Layout, shard: list[Range]) -> tuple[Range, ...]:
    """Join ranges that touch, but not across the border between two dtypes."""
    return tuple(
        part
        for whole in merge(shard)
        for stretch in layout.stretches
        if (part := intersect(whole, stretch))
    )


def _units(layout: Layout, n_ps: int) -> list[Range]:
    share = -(-layout.payload_bytes // n_ps)
    units: list[Range] = []
    for leaf in layout.leaves:
        if n_ps > 1 and leaf.range.size > share:
            units += cut(leaf.range, n_ps, ITEMSIZE[leaf.spec.dtype])
        elif leaf.range.size:
            units.append(leaf.range)
    if len(units) > _UNITS_A_SERVER * n_ps:
        units = _joined(units, -(-share // _UNITS_A_SERVER))
    return [unit for unit in units if unit.size]


def _joined(units: list[Range], at_least: int) -> list[Range]:
    """Join neighbours in the flat buffer until each unit has `at_least` bytes."""
    joined: list[Range] = []
    for unit in sorted(units):
        last = joined[-1] if joined else None
        if last and last.size < at_least and last.hi == unit.lo:
            joined[-1] = Range(last.lo, unit.hi)
        else:
            joined.append(unit)
    return joined
