"""Shards of memory that belongs to no training."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kit.exchange.plan import NOW, Owned
from kit.exchange.ports.memory import Memory, physical
from kit.exchange.ports.port import Stamp
from kit.training.core.axes import OneGeneration
from kit.training.core.snapshot import Shard, private, take


def shard_of(
    memory: Memory,
    owners: Sequence[Owned],
    me: int,
    slots: Sequence[str],
    writers: tuple[int, ...],
) -> Shard:
    """Take a member's shard before step 5."""
    context: Any = SimpleNamespace(
        job=SimpleNamespace(slots=slots, generation=OneGeneration()),
        me=me,
        owners=owners,
        workplace=SimpleNamespace(held=memory),
        now=physical(NOW, 0),
        endpoint=SimpleNamespace(stamp=Stamp()),
        kept=bytes,
    )
    return take(context, 5, writers, private)
