"""Large arrays between two tasks of one host: lent in shared memory, not sent.

A new link lends nothing. When the dialling side is about to send something large, or
has received it, the two ends agree on it between two messages:

    dialler                          the other end
    ASK {"op": "lend"}      ───►
                            ◄───     DONE
    its arena's descriptor  ───►     (waits for it)
                            ◄───     its arena's descriptor
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from kit.graph.dtypes import Array
from kit.memory_order import can_share
from kit.session.transport.serialization import LEAST_LENT, Borrow, Lend
from kit.wire.link import Link
from kit.wire.local.loan import Borrower, Lender, open_loans
from kit.wire.stream import wait_ready

OP: Final = "lend"

# Weak: a link that is dropped without `end` must not keep its arenas.
LENDING: WeakKeyDictionary[Link, tuple[Lender, Borrower]] = WeakKeyDictionary()


def lend_of(link: Link) -> Lend | None:
    """Return the function that lends memory to the peer; None for an ordinary link."""
    lending = LENDING.get(link)
    return None if lending is None else lending[0].lend


def borrow_of(link: Link) -> Borrow | None:
    """Return the function that finds memory lent by the peer."""
    lending = LENDING.get(link)
    return None if lending is None else lending[1].borrow


def pays(link: Link, arrays: Sequence[Array]) -> bool:
    """Whether a link should begin to lend, given what goes over it."""
    return (
        link.transport == "unix"
        and can_share()
        and any(array.nbytes >= LEAST_LENT for array in arrays)
        and link not in LENDING
    )


def begin(link: Link, deadline_s: float) -> None:
    """Exchange arenas; the other end does the same, or has just agreed to.

    Nothing may be under way on the link. Raises what `open_loans` raises; then the link
    cannot be used any more.
    """
    deadline = time.monotonic() + deadline_s
    LENDING[link] = open_loans(link.stream, deadline)


def answer(link: Link, deadline_s: float) -> None:
    """Exchange arenas after agreeing to it; see `begin`."""
    # Only when its descriptor is here has the dialler read our answer. A link reads
    # ahead: if ours were sent earlier, that read would take it along and lose it.
    wait_ready(link.stream, select.POLLIN, time.monotonic() + deadline_s)
    begin(link, deadline_s)


def end(link: Link) -> None:
    """Close a link, and release what was lent over it."""
    link.close()
    lending = LENDING.pop(link, None)
    if lending is not None:
        for side in lending:
            side.close()
