"""Colours of the pictures, for light and for dark, as style sheets.

Pure. The hues are those of Okabe and Ito, which people with any common colour blindness
tell apart. No meaning hangs on a colour alone: each task has a strip with its name.
Written out for each theme without variables of CSS, which drawing programs do not know.
"""

from __future__ import annotations

from dataclasses import dataclass

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
TEXT_PX, DETAIL_PX = 13, 12
N_HUES = 6


@dataclass(frozen=True)
class Colours:
    """One theme; the last of `hues` is for what has no task."""

    ground: str
    ink: str
    faint: str
    hues: tuple[str, ...]


LIGHT = Colours(
    ground="#ffffff",
    ink="#1b1f24",
    faint="#57606a",
    hues=(
        *("#0072b2", "#b35900", "#007f5f", "#a94f85", "#c2321f", "#7a6a00"),
        "#6b7280",
    ),
)
DARK = Colours(
    ground="#14181d",
    ink="#eef2f6",
    faint="#a9b4c0",
    hues=(
        *("#56b4e9", "#e69f00", "#2fc293", "#d990bd", "#ff7b5c", "#f0e442"),
        "#9aa5b1",
    ),
)

# The page's own theme counts more than that of the system around it.
_THEMES = (
    ("", LIGHT, ""),
    ("", DARK, "@media (prefers-color-scheme: dark)"),
    ('[data-jp-theme-light="true"] ', LIGHT, ""),
    ('[data-jp-theme-light="false"] ', DARK, ""),
    (".vscode-light ", LIGHT, ""),
    (".vscode-dark ", DARK, ""),
)


def style_sheet() -> str:
    """Return the rules for all themes; they reach `.kit-graph` only."""
    parts = [
        f".kit-graph text{{font:{TEXT_PX}px {FONT}}}"
        f".kit-graph .title{{font-weight:600}}"
        f".kit-graph .detail{{font-size:{DETAIL_PX}px}}"
        ".kit-graph path{fill:none}"
    ]
    for prefix, colours, condition in _THEMES:
        rules = _rules(f"{prefix}.kit-graph", colours)
        parts.append(f"{condition}{{{rules}}}" if condition else rules)
    return "".join(parts)


def _rules(scope: str, colours: Colours) -> str:
    rules = [
        f"{scope} .ground{{fill:{colours.ground}}}",
        f"{scope} text{{fill:{colours.ink}}}",
        f"{scope} .detail{{fill:{colours.faint}}}",
        f"{scope} .line{{stroke:{colours.faint}}}",
        f"{scope} .head{{fill:{colours.faint}}}",
    ]
    for i, hue in enumerate(colours.hues):
        rules.append(f"{scope} .s{i}{{stroke:{hue}}}{scope} .f{i}{{fill:{hue}}}")
    return "".join(rules)
