"""What an elastic training has lost, taken in and let go, in words.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.training.elastic.generation import Change


def sentence(change: Change) -> str:
    """Return a change as a sentence: who, when, and what it cost.

    >>> sentence(Change(("worker:2",), (), (), 120, 14, 0.21, "its link is closed"))
    'worker:2 was lost at step 120; 14 steps were done again. The tasks had agreed \
how to go on after 0.21 s.'
    >>> sentence(Change((), ("worker:3",), ("ps:1",), 9, 0, 0.04, ""))
    'worker:3 joined and ps:1 left at step 9; no step was done again. The tasks had \
agreed how to go on after 0.04 s.'
    """
    n = change.repeated
    again = f"{n:,} steps were" if n > 1 else f"{n or 'no'} step was"
    was = "were lost" if len(change.lost) > 1 else "was lost"
    return (
        f"{_who(change, was)} at step {change.step:,}; {again} done again. The tasks "
        f"had agreed how to go on after {change.seconds:.2f} s."
    )


def label(change: Change) -> str:
    """Return a change in as few words as a mark in a picture has room for.

    >>> label(Change(("worker:2",), (), (), 120, 14, 0.21, ""))
    'worker:2 lost'
    >>> label(Change((), (), (), 120, 0, 0.21, "to place the members anew"))
    'placed anew'
    """
    return _who(change, "lost", "placed anew")


def _who(change: Change, lost: str, anew: str = "The members were placed anew") -> str:
    pairs = ((change.lost, lost), (change.joined, "joined"), (change.left, "left"))
    return listed([f"{listed(who)} {did}" for who, did in pairs if who]) or anew


def listed(parts: Sequence[str]) -> str:
    """Join parts as English does.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
