"""The first programs of the original, each as a process, print what they should.

Only the line that imports it tells them from programs of the original.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cases import for_each
from tests.seeds.conftest import collect_ignore
from tests.seeds.numpy_twin import losses_and_variables
from tests.server.ports import free_ports
from tests.zygote import forking

HERE = Path(__file__).parent
BOUND_S = 60.0
PROGRAMS = [name.removesuffix(".py") for name in sorted(collect_ignore)]


def addresses(count: int) -> list[str]:
    return [f"localhost:{port}" for port in free_ports(count)]


def command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(HERE / f"{program}.py"), *arguments]


def printed(program: str, *arguments: str) -> list[str]:
    """Run a program to its end and return the lines that it printed."""
    with forking():
        done = subprocess.run(
            command(program, *arguments),
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def serving(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that serves until it is stopped; ready at its first line."""
    with forking():
        process = subprocess.Popen(
            command(program, *arguments), stdout=subprocess.PIPE, text=True
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("grpc://")
        yield process
    finally:
        process.kill()
        process.communicate(timeout=BOUND_S)


@for_each("program", PROGRAMS)
def test_program_knows_of_kit_by_one_line_only(program: str) -> None:
    lines = (HERE / f"{program}.py").read_text("utf-8").splitlines()

    assert [line for line in lines if "kit" in line] == ["from kit import tf1 as tf"]


@pytest.mark.slow
def test_hello_prints_the_greeting() -> None:
    assert printed("hello") == ["b'Hello, distributed TensorFlow!'"]


@pytest.mark.slow
def test_cluster_spec_prints_its_members() -> None:
    lines = printed("cluster_spec")

    assert lines[0] == "['ps', 'worker']"
    assert lines[1:4] == ["job {", '  name: "ps"', "  tasks {"]
    assert lines[-4:] == [
        "['10.0.1.1:2222', '10.0.1.2:2222']",
        "3",
        "10.0.0.2:2222",
        "[0, 1]",
    ]


@pytest.mark.slow
def test_two_tasks_serve_each_other_from_two_processes() -> None:
    both = addresses(2)

    with serving("two_tasks", *both, "1") as other:
        lines = printed("two_tasks", *both, "0")
        is_still_serving = other.poll() is None

    assert lines[0] == f"grpc://{both[0]}"
    assert lines[1:] == ["2.0 15.0 17.0 /job:local/task:0"] * 2
    assert is_still_serving


@pytest.mark.slow
def test_pinned_layers_train_as_a_numpy_loop_does() -> None:
    losses, variables = losses_and_variables()

    lines = printed("pinning", *addresses(3))

    assert [float(line) for line in lines[:3]] == pytest.approx(losses, abs=2e-6)
    for line, (device, values) in zip(lines[3:], variables, strict=True):
        assert line.startswith(device)
        shown = line.removeprefix(device).split()
        assert [float(number) for number in shown] == pytest.approx(values, abs=2e-6)


@pytest.mark.slow
def test_a_name_bound_anew_changes_no_node_and_a_variable_changes_for_all() -> None:
    lines = printed("evolution", *addresses(3))

    assert [float(line) for line in lines] == [7.0, 13.0, 13.0, 3.0, 3.0, 13.0, 13.0]
