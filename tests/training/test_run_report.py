"""A run as the last expression of a cell."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np

import kit
from kit.testing.cluster import local_cluster
from kit.trace.named_rows import Change, EpochRow
from kit.training.client.metrics import Entry
from kit.training.client.report import RunReport, table

PICTURE = RunReport("0123456789", "running", 1200, 6000, 0.25)
ENTRY = Entry(0, "ring", "worker:0", 9, 1_000, 2_000, 1_000, 2_000)


class Balanced(HTMLParser):
    """Complains of an element that is not closed, and collects the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert not {"style", "color", "bgcolor"} & {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words(picture: RunReport) -> list[str]:
    return Balanced(table(picture)).words


def test_report_tells_step_loss_and_every_topology_with_its_first_step() -> None:
    rows = [EpochRow(0, "ps", 0, 0, ""), EpochRow(1, "ring", 1100, 9, "1gbit")]
    result = words(replace(PICTURE, epochs=rows, switching="ps"))

    assert result[0] == "Training 01234567: running"
    assert "1,200 of 6,000" in result
    assert "0.25" in result
    assert "ps from step 0, ring at 1gbit from step 1,100, switching to ps" in result


def test_report_says_since_when_the_workers_differ() -> None:
    names = ["ring", "gossip", "gossip", "mesh"]
    rows = [EpochRow(n, name, 100 * n, 0, "") for n, name in enumerate(names)]

    is_apart, agreed = (words(replace(PICTURE, epochs=rows[:n])) for n in (3, 4))

    assert any(
        "have differed since step 100; run.params are older" in s for s in is_apart
    )
    assert not any("differed" in text for text in agreed)


def test_report_lists_what_an_elastic_training_lost_and_took_in() -> None:
    changes = (
        Change(("worker:2",), (), (), 1120, 14, 0.21, "<its links are closed>"),
        Change((), ("worker:2",), (), 1300, 0, 0.04, "it is back"),
    )
    result = words(replace(PICTURE, changes=changes))

    at = result.index("worker:2 lost")
    assert result[at : at + 5] == [
        "worker:2 lost", "1,120", "14", "0.21", "<its links are closed>"
    ]  # fmt: skip
    assert "worker:2 joined" in result
    assert "Tasks lost, joined and left" not in words(PICTURE)


def test_report_names_a_topology_once_for_all_generations_that_have_it() -> None:
    rows = [EpochRow(1, "ring", 0, 0, ""), EpochRow(2, "ring", 106, 9, "", "", 1)]

    assert "ring from step 0" in words(replace(PICTURE, epochs=rows))


def test_report_has_no_loss_before_the_first_step() -> None:
    assert "loss" in words(PICTURE)
    assert "loss" not in words(replace(PICTURE, loss=float("nan")))


def test_report_of_the_traffic_shows_the_formula_where_it_differs() -> None:
    same = words(replace(PICTURE, traffic=[ENTRY]))
    other = words(replace(PICTURE, traffic=[replace(ENTRY, formula_sent=999)]))

    assert {"1,000", "2,000", "the same"} <= set(same)
    assert "999 and 2,000" in other
    assert "the same" not in other


def test_report_escapes_what_came_from_elsewhere() -> None:
    result = Balanced(table(replace(PICTURE, state="failed", error="<script>x & y")))

    assert "script" not in result.tags
    assert "<script>x & y" in result.words


def test_run_shows_its_traffic_when_it_is_over() -> None:
    with local_cluster(ps=1, worker=2) as cluster:
        run = kit.train(
            lambda params, batch: (0.5, {"w": params["w"]}),
            {"w": np.ones(4, np.float32)},
            np.zeros((4, 1), np.float32),
            steps=2,
            batch=4,
            cluster=cluster,
        ).wait(20)

        result = Balanced(run._repr_html_()).words

    assert result[0].endswith("done")
    assert "2 of 2" in result
    assert result.count("the same") == 3
