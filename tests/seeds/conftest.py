"""The programs here run as processes; pytest must not import them for doctests."""

from __future__ import annotations

from pathlib import Path

NAMES = ("hello", "two_tasks", "pinning", "cluster_", "evolution", "trainer")

collect_ignore = [
    one.name
    for one in Path(__file__).parent.glob("*.py")
    if one.name.startswith(
        ("hello", "two_tasks", "pinning", "cluster_", "evolution", "trainer")
    )
]
