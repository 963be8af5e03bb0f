"""What may be asked of a training: its topologies, paces and link speeds, by name.

Pure. The board's controls and the teacher's page offer these.
"""

from __future__ import annotations

from kit.errors import KitError
from kit.exchange.topologies.topology import registered
from kit.training.client.run import Run
from kit.training.core import conflicts

SPEEDS = ("10mbit", "100mbit", "1gbit", "10gbit", "")
LATENCIES = (0.0, 0.0001, 0.001, 0.005, 0.02, 0.1)
PACES = ("synchronous", "asynchronous")


def speed_name(speed: str) -> str:
    """Return a link speed as people write it.

    >>> speed_name("100mbit"), speed_name("")
    ('100 Mbit/s', 'full speed')
    """
    if not speed:
        return "full speed"
    number = speed.removesuffix("bit")
    return f"{number[:-1]} {number[-1].upper()}bit/s"


def latency_name(seconds: float) -> str:
    """Return a latency as people write it.

    >>> latency_name(0.0), latency_name(0.005)
    ('none', '5 ms')
    """
    return f"{seconds * 1e3:g} ms" if seconds else "none"


def formable(run: Run) -> list[str]:
    """Return the topologies that the members of a training can form."""
    return [
        topology.name
        for topology in registered()
        if not _why_not(run, topology.name, True)
    ]


def why_always_synchronous(run: Run) -> str:
    """Return why a training can never become asynchronous; empty if it can."""
    able = [topology.name for topology in registered() if topology.may_be_asynchronous]
    reasons = [_why_not(run, name, False) for name in able]
    return reasons[0] if all(reasons) else ""


def _why_not(run: Run, topology: str, synchronous: bool) -> str:
    try:
        conflicts.check(run.job, topology, synchronous, is_switch=True)
    except KitError as error:
        return error.message
    return ""
