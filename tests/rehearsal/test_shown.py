"""A rehearsal is shown as a training is, and says of itself that it is predicted."""

from __future__ import annotations

from pathlib import Path

import pytest

import kit
from kit.exchange.topologies.time_model import Rates
from kit.exchange.topologies.topology import by_name, per_member
from widgets import Section, write_report

FREE = Rates(0.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def rehearsal() -> kit.Rehearsal:
    return kit.rehearse(
        4_000_000, "mesh", worker=3, link="1gbit,1ms", compute=0.01, rates=FREE
    )


@pytest.mark.slow
def test_report_draws_it_and_says_what_is_predicted_and_what_is_exact(
    rehearsal: kit.Rehearsal, tmp_path: Path
) -> None:
    job, path = rehearsal.job, tmp_path / "report.html"
    traffic = by_name("mesh").traffic(job.layout, job.group)
    formula = {f"worker:{item}": per_member(traffic, item) for item in range(3)}

    write_report(path, [Section("Three", "A rehearsal.", rehearsal.trace, formula)])

    page = path.read_text()
    assert "<p>Predicted by a rehearsal, not measured; its bytes are exact.</p>" in page
    assert "<h3>What each task did, predicted</h3>" in page
    assert "<h3>Traffic on each link, predicted</h3>" in page
    assert "All 6 planned values equal the formula to the byte." in page
    assert "<h3>Loss" not in page


def test_trace_file_says_it_and_is_read_as_it_was(
    rehearsal: kit.Rehearsal, tmp_path: Path
) -> None:
    path = tmp_path / "rehearsed.json"
    rehearsal.trace.save(path)

    loaded = kit.Trace.load(path)

    assert loaded.predicted
    assert "worker:1 (predicted)" in path.read_text()
    assert loaded.totals.tolist() == rehearsal.trace.totals.tolist()
    assert loaded.spans.tolist() == rehearsal.trace.spans.tolist()


@pytest.mark.slow
def test_all_that_is_printed_tells_predictions_from_what_is_exact(
    rehearsal: kit.Rehearsal,
) -> None:
    assert "predicted" in str(rehearsal)
    assert "exactly" in str(rehearsal)
    assert "Prediction, not a measurement" in rehearsal._repr_html_()
    assert repr(rehearsal.trace).startswith("<Predicted trace")
    assert [c for c in map(str, rehearsal.frame()) if "predicted" not in c] == [
        "sent",
        "received",
        "memory",
    ]
