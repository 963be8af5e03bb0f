"""Each benchmark runs from end to end at a tiny size, and what it computes is right.

The benchmarks check their own results (means, losses) and end with an error otherwise;
here they are broken on purpose too, to see that they notice. Nothing here is timed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import mlp, overhead, overlap, problem, tasks, training
from benchmarks import run as whole_run
from benchmarks.peers import Peer, find_peers
from benchmarks.rank_group import RanksFailed, rank_group
from benchmarks.tasks import Outcome, Training
from tests.benchmarking import ended, printed_by
from tests.cases import for_each

ROOT = Path(__file__).parents[1]
TINY = "6-5-4-3"


def test_an_interpreter_without_peers_has_none() -> None:
    result = find_peers(["/nonexistent/python"])

    assert all(peer.python == sys.executable for peer in result.values())


def test_mpi_is_started_by_the_launcher_beside_its_interpreter(tmp_path: Path) -> None:
    (tmp_path / "mpiexec").touch()

    launcher = Peer("mpich", "5", str(tmp_path / "python")).launcher(3)

    assert launcher == [str(tmp_path / "mpiexec"), "-n", "3"]


@pytest.mark.slow
def test_all_ways_to_train_learn_and_ring_and_ps_lose_the_same() -> None:
    result = training.compare(TINY, steps=30, rounds=1, peers={})

    assert set(result) == {"no exchange", *training.OURS}
    assert all(rate > 0 for rates in result.values() for rate in rates)


@pytest.mark.slow
def test_the_tasks_train_as_numpy_alone_does() -> None:
    steps = 5
    with problem.stored(TINY) as path, tasks.tasks() as on:
        outcome = tasks.train(on, Training("ps"), path, steps)

    assert np.allclose(np.mean(outcome.losses, axis=0), _exactly(TINY, steps))


def _exactly(name: str, steps: int) -> list[float]:
    """Train in this process, on whole mini-batches, in float64."""
    made = problem.make(name)
    params: dict[str, Any] = {k: v.astype(float) for k, v in made.params.items()}
    losses = []
    for number in range(steps):
        parts = [made.part(number, worker, 2) for worker in range(2)]
        x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        loss, gradients = mlp.step(params, (x, y))
        losses.append(loss)
        for key, gradient in gradients.items():
            params[key] = params[key] - mlp.RATE * gradient
    return losses


def test_the_replay_that_judges_the_systems_is_right() -> None:
    losses = problem.replay(problem.make(TINY), 5, n_workers=2)

    assert np.allclose(np.mean(losses, axis=0), _exactly(TINY, 5))


def test_the_text_has_the_classes_that_its_step_reads() -> None:
    made = problem.make("text")
    batch = made.part(3, worker=1, n_workers=2)
    seen, classes = made.inputs(batch)
    own = {name: np.empty_like(value) for name, value in made.params.items()}
    loss = made.write()(made.params, batch, own)
    hidden = made.params["embedding"][seen].reshape(len(seen), -1) @ made.params["w1"]
    scores = np.maximum(hidden + made.params["b1"], 0) @ made.params["w2"]
    scores = (scores + made.params["b2"]).astype(float)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))

    assert loss == pytest.approx(-scores[np.arange(64), classes].mean(), rel=1e-4)
    assert all(np.isfinite(gradient).all() for gradient in own.values())


@pytest.mark.slow
def test_overlap_is_measured_on_slow_links() -> None:
    took = overlap.measure(
        "64-32-10", Training("ring", link="100mbit"), steps=5, n_workers=2
    )

    n_bytes = problem.make("64-32-10").n_bytes
    assert took["link"] == [pytest.approx(n_bytes * 8 / 100e6 * 1e3, rel=0.02)]
    assert len(took["whole"]) == 2 * 2
    assert all(0 < part <= whole for part, whole in _pairs(took, "transfer"))
    assert all(0 <= part <= whole for part, whole in _pairs(took, "both"))


def _pairs(took: dict[str, list[float]], part: str) -> list[tuple[float, float]]:
    return list(zip(took[part], took["whole"], strict=True))


def test_gradients_of_the_model_are_its_slopes() -> None:
    made = problem.make(TINY)
    params: dict[str, Any] = {k: v.astype(float) for k, v in made.params.items()}
    x, y = made.examples
    batch = x[:16], y[:16]
    _, gradients = mlp.step(params, batch)

    for name, value in params.items():
        target = np.unravel_index(value.size // 2, value.shape)
        slopes = []
        for sign in (1, -1):
            moved = value.copy()
            moved[target] += sign * 1e-6
            slopes.append(mlp.step(params | {name: moved}, batch)[0])
        slope = (slopes[0] - slopes[1]) / 2e-6
        assert gradients[name][target] == pytest.approx(slope, rel=1e-4, abs=1e-7)


FALLING = [[2.0, 1.0]]


@for_each(
    ("losses", "wanted", "message"),
    [
        ({"ring": FALLING, "ps": [[2.0, 1.1]]}, FALLING, "bit for bit"),
        ({"ring": [[2.0, 1.01]]}, FALLING, "ring and numpy lose differently"),
        (
            {"ring": FALLING, "ddp": [[2.0, 1.01]]},
            FALLING,
            "ddp and numpy lose differently",
        ),
        (
            {"tf ps async": [[2.2, 1.0], [2.2, 1.0]]},
            [*FALLING, [2.1, 1.0]],
            "begins with other losses",
        ),
    ],
)
def test_a_system_that_computes_something_else_is_an_error(
    losses: dict[str, list[list[float]]], wanted: list[list[float]], message: str
) -> None:
    outcomes = {system: Outcome(1.0, values) for system, values in losses.items()}

    with pytest.raises(RanksFailed, match=message):
        training.check(outcomes, wanted)


@pytest.mark.slow
def test_recording_is_compared_in_pairs() -> None:
    result = overhead.compare([TINY], steps=20, rounds=2)

    assert len(overhead.pairs(result[TINY], "ring")) == 2
    assert all(us > 0 for us in result[TINY]["ring, trace on, us"])


@pytest.mark.slow
def test_all_figures_are_in_the_file_that_was_asked_for() -> None:
    options = "--members 2 --sizes 4096 --rounds 1 --over memory --quick"

    figures = ended("allreduce", options).figures

    assert len(figures["microseconds"]["2"]["4096"]["ring"]) == 200


@pytest.mark.slow
@pytest.mark.engines
def test_starts_of_both_clusters_are_measured_and_counted_beside_endless_loops() -> (
    None
):
    engines, seconds, *_, memory = ended("startup", "--engines 2 --rounds 1").cells[:6]
    counted = ended("startup", "--engines 2 --starts 1 --beside 1")

    assert engines == "2"
    assert float(seconds) > 0
    assert float(memory) > 10  # MiB: no process is as small
    assert "beside 1 endless loops" in counted.printed
    assert counted.cells[1] == "1 of 1"


@pytest.mark.slow
@pytest.mark.engines
def test_a_long_run_is_looked_at_until_it_is_over() -> None:
    cells = ended("long_run", "--topologies ring --steps 600").cells

    assert cells[:2] == ["ring", "600"]
    assert float(cells[3]) > 10  # MiB
    assert all(float(cell) > 0 for cell in cells[-3:])


@pytest.mark.slow
def test_a_rank_that_cannot_start_is_named_with_what_it_said() -> None:
    with (
        pytest.raises(RanksFailed, match=r"(?s)lost: a process ended.*No module named"),
        rank_group("lost", "benchmarks.no_such_module", 1),
    ):
        pass


def test_every_benchmark_is_listed_with_its_question() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE))

    assert {*whole_run.BENCHMARKS, *whole_run.ALONE} <= listed
    assert not set(whole_run.BENCHMARKS) & set(whole_run.ALONE)
    assert all((ROOT / "benchmarks" / f"{name}.py").exists() for name in listed)


def test_what_needs_more_is_run_where_it_is_named_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = list[str]()

    def note(name: str, *_: object) -> str:
        result.append(name)
        return f"## {name}"

    monkeypatch.setattr(whole_run, "run_one", note)
    options = ["run", "--results", str(tmp_path)]

    monkeypatch.setattr(sys, "argv", options)
    assert whole_run.main() == 0
    assert result == [*whole_run.BENCHMARKS]
    assert "Left out: startup_hosts, which needs root" in capsys.readouterr().out

    result.clear()
    monkeypatch.setattr(sys, "argv", [*options, "--only", "startup_hosts"])
    assert whole_run.main() == 0
    assert result == ["startup_hosts"]
    assert "Left out" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_whole_run_writes_one_table(tmp_path: Path) -> None:
    options = f"--quick --only overhead --results {tmp_path} --steps 20 --rounds 1"

    printed = printed_by("run", options)

    text = (tmp_path / "results.md").read_text()
    assert "## Cost of recording" in text
    assert str(tmp_path / "results.md") in printed
