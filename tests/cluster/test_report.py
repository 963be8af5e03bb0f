from __future__ import annotations

from html.parser import HTMLParser

from kit.cluster.report import ClusterState, TaskStatus, table
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


def test_the_table_shows_each_task_and_escapes_text() -> None:
    cells = Cells()

    memory = "memory: 5 of <10> MiB"
    rows = [TaskStatus(Task("ps", 0)), LOST]
    cells.feed(table("Cluster", rows, {LOST.task: 57.4}, memory))

    assert cells.tags.count("tr") == 4
    assert "signal" not in cells.tags
    assert "lost: killed by <signal> 9" in "".join(cells.texts)
    assert {"57", memory} <= {*cells.texts}
