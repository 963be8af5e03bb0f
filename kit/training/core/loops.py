"""What a member does between two boundaries, phase by phase: begin, compute, exchange.

Pure. Theory of operation. A loop knows the order of the phases and decides when there
is no other step. It yields the next phase, a method of the member's *part*
(`kit.training.core.part`) with its values, and is sent what came of it. The loop of
synchronous steps stands here; those of workers at their own pace, and of the servers
that serve them, in `kit.training.features.asynchronous.served_steps`.

`live` carries out one loop in a member's own thread, where a phase waits for the other
members. A replay has the loops of all members in one thread, and lets those go on that
need not wait (`kit.recording.recomputing.recomputation`). So there is one account of
what a step is. A phase is never a message: a whole exchange is one call of a compiled
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kit.training.core.part import SyncServer

# A plain tuple: an object for each phase would cost a small step 2 us.
Wanted = tuple[Callable[..., Any], tuple[Any, ...]]
Loop = Generator[Wanted, Any, None]


def in_step(part: SyncServer, step: int) -> Loop:
    """Do the numbered steps that all members do together, up to a halt or the end."""
    check, begin, calculate = part.check, part.begin, part.calculate
    exchange, commit = part.exchange, part.commit
    steps, stamp = part.steps, part.stamp
    while step < steps and step < stamp.halt:
        # Never between an exchange and its commit: a step that some members have
        # committed is committed by all that are left.
        yield check, ()
        yield begin, (step,)
        loss = yield calculate, (step,)
        yield exchange, (step,)
        step += 1
        yield commit, (step - 1, step, loss)


def live(loop: Loop) -> None:
    """Carry out the phases of a loop, one after the other."""
    wanted, send = next(loop, None), loop.send
    while wanted is not None:
        phase, values = wanted
        result = phase(*values)
        try:
            wanted = send(result)
        except StopIteration:
            return
