"""Tab offers flags, words, tasks, topologies and devices, asked as IPython asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from kit.cluster.launchers import SSH
from kit.magics.completion import offered
from kit.task import Task
from tests.cases import for_each
from tests.magics.stage import FakeCluster

TASKS = [Task("ps", 0), Task("worker", 0), Task("worker", 1)]


def completed(shell: InteractiveShell, text: str) -> list[str]:
    """Return the texts as they would stand after each completion."""
    assert shell.Completer is not None
    with provisionalcompleter():
        result = list(shell.Completer.completions(text, len(text)))
    return [
        text[: element.start] + element.text + text[element.end :] for element in result
    ]


@for_each(
    ("text", "expected"),
    [
        ("%%cluster --wo", ["%%cluster --worker"]),
        ("%%cluster --worker 2 --re", ["--reuse", "--restart"]),
        ("%%cluster --transport u", ["%%cluster --transport unix"]),
        ("%%cluster --la", ["%%cluster --launcher"]),
        ("%%cluster --launcher s", ["--launcher ssh", "--launcher slurm"]),
        ("%cluster --ps 1 --launcher m", ["--launcher mpi"]),
        ("%%cluster --launcher ssh --ho", ["--launcher ssh --hosts"]),
        ("%%cluster --launcher slurm --pa", ["--launcher slurm --partition"]),
        ("%cluster st", ["%cluster status", "%cluster stop"]),
        ("%cluster restart worker:", ["worker:0", "worker:1"]),
        ("%cluster add ", ["%cluster add ps", "%cluster add worker"]),
        ("%cluster remove worker:", ["worker:0", "worker:1"]),
        ("%cluster --ps 1 --wo", ["%cluster --ps 1 --worker"]),
        ("%%on wor", ["%%on worker", "%%on worker:0", "%%on worker:1"]),
        ("%%on ps:0,worker:1", ["%%on ps:0,worker:1"]),
        ("%%on ps,wo", ["ps,worker", "ps,worker:0", "ps,worker:1"]),
        ("%%on worker --ti", ["%%on worker --timeout"]),
        ("%topology ri", ["%topology ring", "%topology ring-whole"]),
        ('with kit.device("/job:p', ["/job:ps", "/job:ps/task:0"]),
        ("x = tf.device('/job:ps/task:0/", ["/task:0/cpu:0", "/task:0/gpu:0"]),
        ('with kit.device("', ['device("/job:ps', "/job:worker", "/job:worker/task:1"]),
        ("%%on worker\nwonder", ["%%on worker\nwonderful"]),  # as Python
    ],
)
def test_tab_offers_what_may_stand_there(
    shell: InteractiveShell, cluster: FakeCluster, text: str, expected: list[str]
) -> None:
    shell.user_ns["wonderful"] = 1

    result = completed(shell, text)

    for end in expected:
        assert [item for item in result if item.endswith(end)], result


def test_what_cannot_stand_there_is_not_offered(
    shell: InteractiveShell, cluster: FakeCluster
) -> None:
    assert completed(shell, "%%on worker:") == ["%%on worker:0", "%%on worker:1"]
    rings = ["%topology ring", "%topology ring-whole"]
    assert completed(shell, "%topology ri") == rings
    _, alone = offered("%%cluster --", [])
    _, with_ssh = offered("%%cluster --launcher ssh --", [])
    _, with_value = offered("%%cluster --launcher slurm --partition ", [])

    assert "--launcher" in alone
    assert not {"--hosts", "--partition", "--python"} & set(alone)
    assert {"--hosts", "--python", "--worker"} <= set(with_ssh)
    assert "--partition" not in with_ssh
    assert with_value == []


def test_variables_that_hold_launchers_are_offered_and_so_are_their_options(
    shell: InteractiveShell,
) -> None:
    shell.user_ns["my_hosts"] = SSH({"nodea": 3})
    shell.user_ns["my_number"] = 3

    result = completed(shell, "%%cluster --launcher my")
    options = completed(shell, "%%cluster --launcher my_hosts --ss")

    assert result == ["%%cluster --launcher my_hosts"]
    assert options == ["%%cluster --launcher my_hosts --ssh-args"]


def test_hosts_of_the_site_and_of_ssh_are_offered(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    site = tmp_path / ".config" / "psring" / "launchers.toml"
    site.parent.mkdir(parents=True)
    site.write_text("[ssh.hosts]\nnodea = 3\nnodeb = 2\n")
    (tmp_path / ".ssh").mkdir()
    config = "Host nodec noded *.lab !nodee\n  HostName 10.0.0.3\n"
    (tmp_path / ".ssh" / "config").write_text(config)

    _, first = offered("%%cluster --launcher ssh --hosts ", [])
    second = completed(shell, "%%cluster --launcher ssh --hosts nodea:3,nodeb")

    assert first == ["nodea:3", "nodeb:2", "nodec:", "noded:"]
    assert second == ["%%cluster --launcher ssh --hosts nodea:3,nodeb:2"]


def test_a_site_file_that_cannot_be_read_does_not_disturb_completion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KIT_LAUNCHERS", str(tmp_path / "site.toml"))
    (tmp_path / "site.toml").write_text("[ssh")

    assert offered("%%cluster --launcher ssh --hosts ", []) == ("", [])


def test_without_a_cluster_no_device_is_offered(shell: InteractiveShell) -> None:
    assert not [text for text in completed(shell, 'kit.device("') if "/job:" in text]


@for_each("line", ["", "x = 1", "worker", "print('/job:", "%%px wo", "%%on"])
def test_lines_of_others_get_no_offer(line: str) -> None:
    assert offered(line, TASKS) == ("", [])
