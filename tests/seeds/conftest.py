"""The programs here run as processes; pytest must not import them for doctests."""

from __future__ import annotations

from pathlib import Path

NAMES = ("hello", "two_tasks", "pinning", "cluster_", "evolution", "trainer")

collect_ignore = [
    path.name
    for path in Path(__file__).parent.glob("*.py")
    if path.name.startswith(NAMES)
]
