"""Tab offers flags, words, tasks, topologies and devices, asked as IPython asks."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from kit.magics.completion import offered
from kit.task import Task
from tests.cases import for_each
from tests.magics.stage import FakeCluster

TASKS = [Task("ps", 0), Task("worker", 0), Task("worker", 1)]


def completed(shell: InteractiveShell, text: str) -> list[str]:
    """Return the texts as they would stand after each completion."""
    assert shell.Completer is not None
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    return [text[: one.start] + one.text + text[one.end :] for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%%cluster --wo", ["%%cluster --worker"]),
        ("%%cluster --worker 2 --re", ["--reuse", "--restart"]),
        ("%%cluster --transport u", ["%%cluster --transport unix"]),
        ("%cluster st", ["%cluster status", "%cluster stop"]),
        ("%cluster restart worker:", ["worker:0", "worker:1"]),
        ("%cluster --ps 1 --wo", ["%cluster --ps 1 --worker"]),
        ("%%on wor", ["%%on worker", "%%on worker:0", "%%on worker:1"]),
        ("%%on ps:0,worker:1", ["%%on ps:0,worker:1"]),
        ("%%on ps,wo", ["ps,worker", "ps,worker:0", "ps,worker:1"]),
        ("%%on worker --ti", ["%%on worker --timeout"]),
        ("%topology ri", ["%topology ring", "%topology ring-whole"]),
        ('with kit.device("/job:p', ["/job:ps", "/job:ps/task:0"]),
        ("x = tf.device('/job:ps/task:0/", ["/task:0/cpu:0", "/task:0/gpu:0"]),
        ('with kit.device("', ['device("/job:ps', "/job:worker", "/job:worker/task:1"]),
    ],
)
def test_tab_offers_what_may_stand_there(
    shell: InteractiveShell, cluster: FakeCluster, text: str, expected: list[str]
) -> None:
    found = completed(shell, text)

    for end in expected:
        assert [one for one in found if one.endswith(end)], found


def test_what_cannot_stand_there_is_not_offered(
    shell: InteractiveShell, cluster: FakeCluster
) -> None:
    assert completed(shell, "%%on worker:") == ["%%on worker:0", "%%on worker:1"]
    assert completed(shell, "%topology r") == ["%topology ring", "%topology ring-whole"]


def test_a_cell_below_the_line_of_a_magic_is_completed_as_python(
    shell: InteractiveShell, cluster: FakeCluster
) -> None:
    shell.user_ns["wonderful"] = 1

    assert completed(shell, "%%on worker\nwonder") == ["%%on worker\nwonderful"]


def test_without_a_cluster_no_device_is_offered(shell: InteractiveShell) -> None:
    assert not [one for one in completed(shell, 'kit.device("') if "/job:" in one]


@for_each("line", ["", "x = 1", "worker", "print('/job:", "%%px wo", "%%on"])
def test_lines_of_others_get_no_offer(line: str) -> None:
    assert offered(line, TASKS) == ("", [])
