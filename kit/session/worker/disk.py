"""What ops that save and restore do on the disk of their task."""

from __future__ import annotations

from collections.abc import Sequence

from kit.checkpoint.bundle import Bundle, merge, write_bundle
from kit.graph.dtypes import Array


class Disk:
    """Checkpoints under prefixes; see `kit.checkpoint.bundle` for what it raises."""

    def write(
        self,
        prefix: str,
        names: Sequence[str],
        slices: Sequence[str],
        values: Sequence[Array],
    ) -> None:
        """Write tensors under a prefix."""
        write_bundle(prefix, names, slices, values)

    def merge(self, parts: Sequence[str], prefix: str) -> None:
        """Make one checkpoint of those of several tasks."""
        merge(parts, prefix)

    def read(
        self, prefix: str, names: Sequence[str], slices: Sequence[str]
    ) -> list[Array]:
        """Return tensors, when all of their files are compared with their digests."""
        return Bundle(prefix).read(names, slices)


DISK = Disk()
