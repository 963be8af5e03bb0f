from __future__ import annotations

from html.parser import HTMLParser

from kit.cluster.report import ClusterState, TaskStatus, one_line, table
from kit.task import Task

LOST = TaskStatus(Task("worker", 1), ClusterState.LOST, 12, "h", "killed by <signal> 9")


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_line_names_what_is_lost() -> None:
    line = one_line("lost", {"ps": 1, "worker": 2}, 1, ["worker:1"])

    assert line == "<Cluster lost: ps=1 worker=2, 1 BLAS thread each, lost: worker:1>"


def test_the_table_shows_each_task_and_escapes_text() -> None:
    cells = Cells()

    cells.feed(table("Cluster", [TaskStatus(Task("ps", 0)), LOST], {LOST.task: 57.4}))

    assert cells.tags.count("tr") == 3
    assert "signal" not in cells.tags
    assert "lost: killed by <signal> 9" in "".join(cells.texts)
    assert "57" in cells.texts


def test_a_sentence_below_the_table_goes_over_all_its_columns() -> None:
    text = table("Cluster", [LOST], {}, "memory: 5 of <10> MiB")

    foot = '<tfoot><tr><td colspan="5">memory: 5 of &lt;10&gt; MiB</td></tr></tfoot>'
    assert text.endswith(f"{foot}</table>")
    assert "tfoot" not in table("Cluster", [LOST], {})


def test_the_table_has_no_colours_of_its_own() -> None:
    text = table("Cluster", [LOST], {})

    assert "style" not in text
    assert "color" not in text
