from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.errors import InvalidArgumentError
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from tests.widgets.pages import Page
from tests.widgets.traces import toggled
from widgets import Section, write_report
from widgets.drawing import page

NOON = datetime(2031, 4, 5, 12, 30, tzinfo=UTC)
RING = {"worker:0": (800_000, 800_000)}


# Any: the options are those of write_report, which checks them by name.
def written(path: Path, *sections: Section, **options: Any) -> str:
    write_report(path / "report.html", sections, made_at=NOON, **options)
    return (path / "report.html").read_text()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    trace = toggled(("ps", "ring"), steps=20)
    section = Section("There <and>", "One.\n\nTwo.", trace, {"ring": RING})
    folder = tmp_path_factory.mktemp("report")
    table = [{"topology": "ps", "rate [steps/s]": 12.5}]
    return written(folder, section, table=table, notes=["A & B"], title="Runs")


@pytest.mark.slow
def test_the_page_says_what_it_is_made_of_and_what_its_last_steps_waited_for(
    report: str,
) -> None:
    seen, result = Page(report), toggled(("ps", "ring"), steps=20).bottleneck

    assert seen.count("h1") == 1
    assert "Made 2031-04-05 12:30 UTC with psring" in seen.text
    assert f"numpy {np.__version__}" in seen.text
    assert "There <and>" in seen.text
    assert "A & B" in seen.text
    assert result.window == "steps 21 to 39"
    assert f"The last {result.window}: {result.said}" in seen.text
    classes = [a.get("class") for tag, a in seen.tags if tag == "div"]
    assert classes.count("light") == classes.count("dark") == 4
    assert seen.count("figcaption") == seen.count("figure") == 4
    assert "All 2 measured values equal the formula to the byte." in seen.text


@pytest.mark.slow
def test_the_page_loads_nothing_and_follows_the_system_and_the_button(
    report: str,
) -> None:
    seen, style = Page(report), page.style()

    assert seen.asked() == []
    policy = next(a["content"] for _, a in seen.tags if "http-equiv" in a)
    assert "default-src 'none'" in str(policy)
    assert "http" not in str(policy)
    assert "@import" not in report
    assert "url(http" not in style
    assert "@media screen and (prefers-color-scheme: dark)" in style
    assert ":root[data-theme=dark] .light { display: none; }" in style
    assert ":root .dark { display: none; }" in style
    assert any(a.get("id") == "theme" for t, a in seen.tags if t == "button")


def test_no_text_of_the_style_is_smaller_than_twelve_pixels() -> None:
    sizes = [int(size) for size in re.findall(r"(\d+)px[;/]", page.style())]
    fonts = re.findall(r"font(?:-size)?: (\d+)px", page.style())

    assert len(sizes) > 5
    assert min(map(int, fonts)) >= 12


@pytest.mark.slow
def test_data_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    trace = toggled(("ring",), steps=3)
    epochs = (EpochRow(0, evil, 0, 0, ""), EpochRow(1, "ps", 2, 10**9, evil))
    shown = Trace(trace.tasks, epochs, trace.transfers, trace.spans, trace.steps)

    text = written(
        tmp_path, Section(evil, evil, shown), notes=[evil], table=[{evil: evil}]
    )

    assert "alert(1)" in text
    assert "<script>alert(1)" not in text


def test_numbers_are_aligned_right_with_units_in_the_heads() -> None:
    rows = [
        {"topology": "ps", "rate [steps/s]": 12.5, "steps": np.int64(1000)},
        {"topology": "ring", "rate [steps/s]": np.float64(0.25), "steps": None},
    ]

    text = page.table(rows, "Results")

    assert '<th scope="col" class="number">rate <small>steps/s</small></th>' in text
    assert '<td class="number">12.500</td>' in text
    assert '<td class="number">0.250</td>' in text
    assert '<td class="number">1,000</td>' in text
    assert '<td class="number">&ndash;</td>' in text
    assert "<td>ring</td>" in text
    assert "<td>True</td>" in page.table([{"same bits": True}], "Results")


def test_one_formula_is_for_one_topology() -> None:
    section = Section("One", "", toggled(("ring",), steps=2), RING)

    assert section.formulas() == {"ring": RING}
    with pytest.raises(InvalidArgumentError, match=r"'Two'.*ps, ring"):
        Section("Two", "", toggled(("ps", "ring"), steps=2), RING)


def test_a_report_without_figures_needs_no_scripts_of_them(tmp_path: Path) -> None:
    empty = Section("Empty", "", Trace(("/job:ps/task:0",)))

    text = written(tmp_path, empty)

    assert len(text) < 20_000
    assert Page(text).text.count("Nothing was recorded for this figure.") == 4
