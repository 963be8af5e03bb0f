"""How well two colours stand out from each other."""

from __future__ import annotations


def contrast(color: str, background: str) -> float:
    """The WCAG 2 contrast ratio of two colours, from 1 (equal) to 21."""
    low, high = sorted((_luminance(color), _luminance(background)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
