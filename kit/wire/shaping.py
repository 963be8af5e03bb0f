"""How fast a task's links are: bandwidth, latency and jitter, as arithmetic.

Pure: the clock and the dice are arguments, and nothing sleeps here. A laptop behaves
like a cluster on 1 Gbit/s because the receiver treats a payload as on its way until the
moment that this arithmetic gives.

Every task has one line out and one line in, shared by all its links. Sending n bytes
occupies the line out for n / bandwidth; they reach the other side after the latency
(and up to so much jitter), and occupy its line in for n / bandwidth. So a parameter
server with three workers receives three gradients one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from kit.errors import InvalidArgumentError

_BITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_MOST_BITS, _MOST_S = 1e15, 60.0
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_RATE = re.compile(r"(?P<n>\d+(\.\d+)?)\s*(?P<unit>[kmgt]?)bit(/s)?", re.IGNORECASE)
# What else people call bits a second; a capital B would be bytes.
_OTHER_RATE = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])(?:b|bps|b/s|bits?)?")
_EXAMPLES = "'1gbit' or '100mbit,5ms,1ms'"
_TIME = re.compile(r"(?P<n>\d+(\.\d+)?)\s*(?P<unit>us|ms|s)", re.IGNORECASE)


class LinkSettings(NamedTuple):
    """The line of each task. A bandwidth of 0 means: as fast as it goes.

    `bandwidth` is in bits a second, `latency` and `jitter` in seconds one way.
    """

    bandwidth: float = 0.0
    latency: float = 0.0
    jitter: float = 0.0

    @classmethod
    def parse(cls, text: str | None) -> LinkSettings:
        """Read `"1gbit"`, `"100mbit,5ms"` or `"1gbit,5ms,1ms"` (latency, jitter).

        `None`, `""` and `"none"` give full speed. Raises `InvalidArgumentError`.

        >>> LinkSettings.parse("1gbit, 5ms")
        LinkSettings(bandwidth=1000000000.0, latency=0.005, jitter=0.0)
        """
        if text is None:
            return cls()
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"link is {text!r}; give a text such as '1gbit' or '100mbit,5ms'."
            )
        if text.strip().lower() in ("", "none"):
            return cls()
        rates, times = [], []
        for part in (piece.strip() for piece in text.split(",")):
            if match := _RATE.fullmatch(part):
                rates.append(float(match["n"]) * _BITS[match["unit"].lower()])
            elif match := _TIME.fullmatch(part):
                times.append(float(match["n"]) * _SECONDS[match["unit"].lower()])
            else:
                raise InvalidArgumentError(
                    f"{part!r} in link {text!r} is neither a bandwidth such as '1gbit' "
                    f"nor a time such as '5ms'; write {_meant(part) or _EXAMPLES} "
                    f"(bandwidth, latency, jitter)."
                )
        if len(rates) > 1 or len(times) > 2 or rates == [0.0]:
            raise InvalidArgumentError(
                f"link {text!r} must have at most one bandwidth above 0, one latency "
                f"and one jitter, for example '100mbit,5ms,1ms'."
            )
        if any(not 1 <= rate <= _MOST_BITS for rate in rates) or sum(times) > _MOST_S:
            raise InvalidArgumentError(
                f"link {text!r} must have a bandwidth of 1 bit to 1000 Tbit a second, "
                f"and times of {_MOST_S:g} s together at most, for example "
                f"'100mbit,5ms,1ms'."
            )
        return cls(*(rates or [0.0]), *times)

    def __str__(self) -> str:
        """Return the text that `parse` reads; empty at full speed.

        >>> str(LinkSettings(1e9, 0.005))
        '1gbit,5ms'
        """
        parts = []
        if self.bandwidth:
            unit = max(
                (u for u, size in _BITS.items() if self.bandwidth >= size),
                key=_BITS.__getitem__,
                default="",
            )
            parts.append(f"{self.bandwidth / _BITS[unit]:g}{unit}bit")
        times = [self.latency, self.jitter] if self.jitter else [self.latency]
        parts += [f"{seconds * 1e3:g}ms" for seconds in times if any(times)]
        return ",".join(parts)

    @property
    def is_shaped(self) -> bool:
        """Whether anything is slower than the machine itself."""
        return any(self)

    @property
    def ns_per_byte(self) -> float:
        """Nanoseconds that a byte occupies the line."""
        return 8e9 / self.bandwidth if self.bandwidth else 0.0


FULL_SPEED = LinkSettings()


def _meant(part: str) -> str:
    """Return how a bandwidth is written; empty if it is none.

    >>> _meant("100 m bit"), _meant("10Gbps"), _meant("1 gbyte")
    ("'100mbit'", "'10gbit'", '')
    """
    match = _OTHER_RATE.fullmatch(part.replace(" ", ""))
    return f"'{match[1]}{match[2].lower()}bit'" if match else ""


class LineOut:
    """A task's line to all others; gives the moment a payload reaches the other end."""

    def __init__(self, settings: LinkSettings, dice: Callable[[], float]) -> None:
        self._settings = settings
        self._dice = dice  # () -> [0, 1)
        self._free_at = 0.0

    def reaches_at(self, now_ns: int, n_bytes: int) -> int:
        """Put `n_bytes` on the line now; return when the last of them is there.

        >>> line = LineOut(LinkSettings(8e9, 1e-6), dice=lambda: 0.0)
        >>> line.reaches_at(0, 1000), line.reaches_at(0, 1000)
        (2000, 3000)
        """
        line = self._settings
        self._free_at = max(now_ns, self._free_at) + n_bytes * line.ns_per_byte
        delay = line.latency + (line.jitter and line.jitter * self._dice())
        return round(self._free_at + delay * 1e9)


class LineIn:
    """A task's line from all others; payloads share it one after the other."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings
        self._free_at = 0.0

    def arrives_at(self, reached_ns: int, n_bytes: int) -> int:
        """Return when a payload that reached this end has been taken in.

        >>> line = LineIn(LinkSettings(8e9))
        >>> line.arrives_at(1000, 1000), line.arrives_at(1000, 1000)
        (1000, 2000)
        """
        occupied = n_bytes * self._settings.ns_per_byte
        # Its first byte came that much earlier than its last one. So a payload that
        # comes alone is not delayed again by the receiver's line, only one that meets
        # another.
        self._free_at = max(reached_ns - occupied, self._free_at) + occupied
        return round(max(self._free_at, reached_ns))
