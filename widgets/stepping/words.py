"""A recording in words: what each message does, in sentences for reading aloud.

Pure. Everything that the picture and the matrix show is said here too.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.exchange.stepping.stepped_exchange import (
    ColumnCell,
    Holding,
    SteppedExchange,
    SteppedMessage,
    SteppedState,
    Values,
)
from kit.trace.traffic import TransferKind
from widgets.drawing.words import listed

_SHOWN = 4  # numbers of a cell; the rest is dots
_ADDED = 5  # workers of a sum that are named one by one
BACK = (TransferKind.PULL, TransferKind.GATHER)  # the kinds that bring the result
_PHASES = {
    TransferKind.PUSH: "push",
    TransferKind.PULL: "pull",
    TransferKind.REDUCE: "add up",
    TransferKind.GATHER: "hand out",
}


def title(recording: SteppedExchange) -> str:
    """Return what is shown, with its numbers: the head of a page or a cell."""
    if recording.call:
        n = count(len(recording.names), "task")
        return f"{recording.title}: {n}, message by message"
    n_ps = len(recording.names) - len(recording.workers)
    parts = [count(n_ps, "server")] * bool(n_ps)
    parts.append(count(len(recording.workers), "worker"))
    return f"{recording.title}: {' and '.join(parts)}, message by message"


def where(recording: SteppedExchange, position: int) -> str:
    """Return after which message, and in which hop, a state is."""
    state = recording.states[position]
    if not recording.messages:
        return "No message"
    if state.message is None:
        return "Before the first message" if not position else "After the last message"
    number = 1 + recording.messages.index(state.message)
    phase = _PHASES.get(state.message.kind, state.message.kind.name.lower())
    return (
        f"Message {number} of {len(recording.messages)}, hop {state.message.round} "
        f"of {recording.n_rounds} ({phase})"
    )


def said(recording: SteppedExchange, position: int) -> str:
    """Return what has just happened."""
    state = recording.states[position]
    if not position:
        return _beginning(recording)
    if state.message is None:
        happened = "Each worker now has the numbers of all, and adds them up."
    else:
        then = _then(recording, position)
        happened = f"{_sent(recording, state.message)} {then}"
    return f"{happened} {_end(recording, state)}".strip()


def _beginning(recording: SteppedExchange) -> str:
    size = sum(column.hi - column.lo for column in recording.columns)
    if not recording.messages:
        return "Nothing here that another worker needs: no message is sent."
    if recording.call:
        return "Each task has the numbers that it gave to this call."
    if not recording.agrees:
        return (
            f"Each worker has parameters of its own, {count(size, 'number')}. The "
            f"aim: every worker gets the sum of its own and its neighbours', which "
            f"divided by the number of workers in it is their mean."
        )
    return (
        f"Each worker has a gradient of its own, {count(size, 'number')}. The aim: "
        f"every worker gets the sum of all, which divided by {len(recording.workers)} "
        f"is their mean."
    )


def _sent(recording: SteppedExchange, message: SteppedMessage) -> str:
    source = recording.names[message.source]
    target = recording.names[message.destination]
    return (
        f"{source} sends {columns(recording, message.columns)} to {target}: "
        f"{_contents(recording, message)}, {message.n_bytes} bytes."
    )


def _contents(recording: SteppedExchange, message: SteppedMessage) -> str:
    sets = {tuple(sorted(who)) for who in message.who}
    if message.kind in BACK and not (recording.call and _is_single(sets)):
        return _total(recording)
    sets = {tuple(sorted(who)) for who in message.who}
    if len(sets) > 1:
        return "sums of some workers"
    (who,) = sets
    owner = recording.workers.index(message.source)
    if who == (owner,):
        return "its own numbers"
    if len(who) == 1:
        return f"the numbers of worker {who[0]}"
    return f"the sum of workers {listed([*map(str, who)])}"


def _then(recording: SteppedExchange, position: int) -> str:
    message = recording.states[position].message
    assert message is not None
    target, column = message.destination, message.columns[0]
    name = recording.names[target]
    cells = [state.rows[target][column] for state in recording.states[position - 1 :]]
    old, new = cells[:2]
    if message.kind in BACK:
        return f"{name} now has {_them(recording, message)} there."
    if new.held is None or new.held == old.held:
        later = next((c.held for c in cells if c.held not in (None, old.held)), None)
        whom = "all workers" if recording.agrees else "all its neighbours"
        if later is not None and recording.agrees and not is_complete(recording, later):
            before = old.held.who if old.held is not None else ()
            awaited = [str(number) for number in sorted({*later.who} - {*before})]
            whom = f"workers {listed(awaited)}"
        return f"{name} keeps it until it has the numbers of {whom}."
    if is_complete(recording, new.held):
        return f"{name} adds: now the sum of all workers is complete there."
    return f"{name} adds its own: it now holds the sum {added(new.held.who)}."


def _end(recording: SteppedExchange, state: SteppedState) -> str:
    if recording.call:
        return ""
    done = [worker for worker in recording.workers if has_result(state, worker)]
    if len(done) < len(recording.workers) or not recording.messages:
        return ""
    if not recording.agrees:
        return (
            "Every worker has its sum now; divided by how many are in it, it is a mean."
        )
    n = len(recording.workers)
    return f"All workers have the same sum now; divided by {n} it is the mean."


def _is_single(sets: set[tuple[int, ...]]) -> bool:
    return all(len(who) == 1 for who in sets)


def _total(recording: SteppedExchange) -> str:
    return "the result" if recording.call else "the sum of all workers"


def _them(recording: SteppedExchange, message: SteppedMessage) -> str:
    is_moved = recording.call and _is_single({tuple(who) for who in message.who})
    return "these numbers" if is_moved else "the result"


def has_result(state: SteppedState, member: int) -> bool:
    """Whether a member has the result in all columns that hold anything."""
    return all(cell.is_result for cell in state.rows[member] if cell.held)


def is_complete(recording: SteppedExchange, held: Holding) -> bool:
    """Whether a sum has the numbers of all workers."""
    return len(held.who) == len(recording.workers)


def added(who: Sequence[int]) -> str:
    """Return the workers of a sum in the order in which they were added.

    >>> added((2, 0, 1)), added((4, 5, 6, 0, 1, 2))
    ('2+0+1', '4+5+…+2')
    """
    if len(who) > _ADDED:
        return f"{who[0]}+{who[1]}+\u2026+{who[-1]}"
    return "+".join(map(str, who))


def columns(recording: SteppedExchange, numbers: Sequence[int]) -> str:
    """Return the name of some columns: chunks, or parts of one."""
    if len(numbers) == len([c for c in recording.columns if c.hi > c.lo]):
        return "everything" if len(numbers) > 1 else heading(recording, numbers[0])
    names = [heading(recording, number) for number in numbers]
    if len(names) == 1:
        return names[0]
    return f"chunks {listed([name.removeprefix('chunk ') for name in names])}"


def heading(recording: SteppedExchange, number: int) -> str:
    """Return the name of a column; a letter distinguishes the parts of a chunk."""
    chunk = recording.columns[number].chunk
    same = [i for i, c in enumerate(recording.columns) if c.chunk == chunk]
    letter = "abcdefgh"[same.index(number) % 8] if len(same) > 1 else ""
    return f"chunk {chunk}{letter}"


def numbers(values: Values) -> str:
    """Return the numbers of a cell, the first few of many.

    >>> numbers((1.0, 2.5)), numbers((1.0,) * 9)
    ('1  2.5', '1  1  1  1 …')
    """
    shown = "  ".join(f"{value:.4g}" for value in values[:_SHOWN])
    return shown + " \u2026" * (len(values) > _SHOWN)


def cell(recording: SteppedExchange, content: ColumnCell) -> str:
    """Return a cell in a few characters: whose sum it holds, and what it only keeps.

    A tick says that the sum is complete.
    """
    held = "\u2013" if content.held is None else added(content.held.who)
    mark = "\u2713" if content.held and is_complete(recording, content.held) else ""
    return held + mark + "".join(f" ({added(kept.who)})" for kept in content.kept)


def text(recording: SteppedExchange, position: int) -> str:
    """Return a state as plain text: where, what happened, and the matrix."""
    state = recording.states[position]
    heads = [heading(recording, i) for i in range(len(recording.columns))]
    lines = [["", *heads]]
    for name, row in zip(recording.names, state.rows, strict=True):
        lines.append([name, *(cell(recording, entry) for entry in row)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True))
        for line in lines
    ]
    head = f"{where(recording, position)}. {said(recording, position)}"
    return "\n".join([head, *(line.rstrip() for line in table)])


def count(number: int, what: str) -> str:
    """Return a number of things, such as "1 worker" or "2 workers"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
