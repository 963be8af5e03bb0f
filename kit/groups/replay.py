"""A call of a group once more, in memory, message by message, with the numbers it had.

Pure. The plans are those that the tasks have carried out, made by the same code from
what each of them gave; so every task's numbers after each message are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kit.exchange.layout import Range, Spec, itemsize_of, lay_out
from kit.exchange.plan import Plan, Send
from kit.exchange.stepping.stepped_exchange import (
    Column,
    SteppedExchange,
    SteppedPart,
    record_parts,
)
from kit.exchange.topologies.topology import per_member
from kit.groups.generation import Recipe
from kit.groups.recipes import Recipes
from kit.groups.values import OPS, Array, Form, leaves, n_bytes, topology_of

MOST_TASKS = 8  # more rows than that cannot be read


@dataclass(frozen=True)
class GivenValue:
    """What one task gave to a call: its form and the bytes of its arrays."""

    form: Form
    data: bytes

    def arrays(self) -> list[Array]:
        """Return the arrays, flat."""
        result, at = list[Array](), 0
        for dtype, shape in leaves(self.form):
            size = n_bytes(dtype, shape)
            result.append(np.frombuffer(self.data[at : at + size], dtype))
            at += size
        return result


@dataclass(frozen=True)
class ReplayedCall:
    """A call that was carried out again, with its bytes by the formula."""

    number: int
    recording: SteppedExchange
    n_bytes: int
    n_messages: int
    sent: tuple[int, ...]
    received: tuple[int, ...]


def replayed(
    number: int,
    names: Sequence[str],
    what: str,
    options: Mapping[str, Any],
    inputs: Sequence[GivenValue],
    words: str = "",
    hosts: tuple[int, ...] = (),
) -> ReplayedCall | None:
    """Return a call that was carried out again; None if that cannot be shown.

    That is one of more than `MOST_TASKS` tasks, without arrays, or with arrays of
    several dtypes.
    """
    n = len(names)
    dtypes = {dtype for item in inputs for dtype, _ in leaves(item.form)}
    if n > MOST_TASKS or len(dtypes) != 1 or what not in _RECIPES:
        return None
    (dtype,) = dtypes
    recipes = [
        _recipe(
            Recipes(n, me, hosts, 1 << 20),
            what,
            options,
            [item.form for item in inputs],
        )
        for me in range(n)
    ]
    size = itemsize_of(dtype)
    layout = recipes[0].layout
    if layout is None:
        n_elements = -(-max(item.size for item in recipes) // size)
        layout = lay_out([Spec("pieces", (n_elements,), dtype)], 1)
    parts = []
    for recipe, value in zip(recipes, inputs, strict=True):
        places = zip(recipe.places, value.arrays(), strict=False)
        begin = [(region, part, array) for (region, part, _), array in places]
        parts.append(SteppedPart(recipe.plan, begin))
    ranges, columns = _columns(parts, recipes, size)
    result = record_parts(
        *(parts, layout, names, ranges, columns, range(n)),
        combine=OPS[str(options.get("op", "sum"))],
    )
    traffic = recipes[0].traffic
    both = [per_member(traffic, member) for member in range(n)]
    return ReplayedCall(
        number,
        replace(
            result,
            topology=recipes[0].topology,
            title=f"Call {number}, {words or what}",
            call=what,
        ),
        recipes[0].n_bytes,
        sum(_n_sent(part.plan) for part in parts),
        tuple(sent for sent, _ in both),
        tuple(received for _, received in both),
    )


def _recipe(
    recipes: Recipes, what: str, options: Mapping[str, Any], forms: Sequence[Form]
) -> Recipe:
    combine = OPS[str(options.get("op", "sum"))]
    made: Recipe = _RECIPES[what](recipes, forms, options.get("root"), combine, options)
    return made


# By call: how its recipe is made of recipes, all forms, root, ufunc and options.
_RECIPES: Mapping[str, Any] = {
    "all_reduce": lambda r, forms, root, combine, options: r.all_reduce(
        forms[0], topology_of(options.get("algorithm")), combine
    ),
    "reduce": lambda r, forms, root, combine, _: r.reduce(forms[0], root, combine),
    "reduce_scatter": lambda r, forms, root, combine, _: r.reduce_scatter(
        forms[0]["list"], combine
    ),
    "broadcast": lambda r, forms, root, *_: r.broadcast(forms[root], root),
    "scatter": lambda r, forms, root, *_: r.scatter(forms[root]["list"], root),
    "gather": lambda r, forms, root, *_: r.gather(forms, root),
    "all_gather": lambda r, forms, *_: r.gather(forms, None),
    "all_to_all": lambda r, forms, *_: r.all_to_all([form["list"] for form in forms]),
}


def _columns(
    parts: Sequence[SteppedPart], recipes: Sequence[Recipe], size: int
) -> tuple[list[Range], list[Column]]:
    """Return the ranges that travel or lie as a whole, and what they are called."""
    whole = [op.range for part in parts if part.plan for op in part.plan.ops]
    whole += [range_ for recipe in recipes for _, range_, _ in recipe.places]
    edges = sorted({edge for part in whole for edge in part})
    ranges = [
        Range(lo, hi)
        for lo, hi in pairwise(edges)
        if any(part.lo <= lo and hi <= part.hi for part in whole)
    ]
    columns, is_typed = list[Column](), recipes[0].layout is not None
    for number, part in enumerate(ranges):
        lo = part.lo if is_typed else 0
        columns.append(Column(number, lo // size, (lo + part.size) // size))
    return ranges, columns


def _n_sent(plan: Plan | None) -> int:
    ops = plan.ops if plan else ()
    return sum(isinstance(op, Send) and op.range.size > 0 for op in ops)
