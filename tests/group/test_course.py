"""The programs of the course in cells, each beside a serial program of its own."""

from __future__ import annotations

import heapq
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

import kit
from tests.group.scene import Scene, scene
from tests.notebooks.kernel import ROOT
from tests.notebooks.stored import read

pytestmark = pytest.mark.slow

COURSE = ROOT / "notebooks" / "course" / "mpi_in_cells.ipynb"
N = 4


def programs() -> dict[str, Any]:
    """Return what the notebook's cells define on the tasks."""
    names: dict[str, Any] = {}
    for cell in read(COURSE).cells:
        magic, _, body = cell.source.partition("\n")
        if magic == "%%on worker" and "\ndef " in f"\n{body}":
            exec(body, names)
    return names


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return programs()


@pytest.fixture(scope="module")
def stage() -> Any:
    with scene(N) as result:
        yield result


def played(stage: Scene, program: Any) -> tuple[list[Any], int]:
    """Return what all tasks return, and the bytes that they have moved."""

    def with_barrier(group: kit.Group) -> Any:
        results = program(group)
        group.barrier()
        return results

    before = stage.groups[0].traffic.measured
    result = stage.play(with_barrier)
    after = stage.groups[0].traffic
    assert after.measured == after.formula
    return result, after.measured - before


@pytest.mark.lasting("descriptor", "thread")
def test_ping_pong_takes_the_latency_and_the_bytes_of_its_link(
    names: dict[str, Any],
) -> None:
    with scene(2, link="80mbit,20ms") as two:
        result, moved = played(two, lambda g: names["ping_pong"](g, 100_000, rounds=2))

    assert moved == 2 * 2 * 100_000
    assert result[0] >= 0.02 + 0.01


@pytest.mark.lasting("descriptor", "thread")
def test_tree_sum_adds_pairs_of_pairs(stage: Scene, names: dict[str, Any]) -> None:
    shares = np.random.default_rng(1).standard_normal((N, 100)) * 1e3

    result, moved = played(stage, lambda g: names["tree_sum"](g, shares[g.rank]))

    wanted = (shares[0] + shares[1]) + (shares[2] + shares[3])
    assert result[0].tobytes() == wanted.tobytes()
    assert result[1:] == [None] * 3
    assert moved == (N - 1) * 100 * 8


@pytest.mark.lasting("descriptor", "thread")
def test_jacobi_on_a_rod_is_that_of_one_task(
    stage: Scene, names: dict[str, Any]
) -> None:
    result, moved = played(stage, lambda g: names["jacobi_1d"](g, 11, 30))

    rod = [0.0] * 12 + [1.0]
    for _ in range(30):
        means = [(rod[i - 1] + rod[i + 1]) / 2 for i in range(1, 12)]
        rod = [0.0, *means, 1.0]
    assert np.concatenate(result).tolist() == rod[1:-1]
    assert moved == 30 * 2 * (N - 1) * 8


@pytest.mark.lasting("descriptor", "thread")
@pytest.mark.parametrize("grid", [(4, 1), (2, 2), (1, 4)])
def test_jacobi_on_a_plate_is_that_of_one_task(
    stage: Scene, names: dict[str, Any], grid: tuple[int, int]
) -> None:
    side, sweeps = 8, 10

    result, moved = played(stage, lambda g: names["jacobi_2d"](g, side, sweeps, grid))

    plate = np.zeros((side + 2, side + 2))
    plate[0] = 1.0
    for _ in range(sweeps):
        last = plate.copy()
        for i in range(1, side + 1):
            for j in range(1, side + 1):
                across = last[i, j - 1] + last[i, j + 1]
                plate[i, j] = (across + (last[i - 1, j] + last[i + 1, j])) / 4
    rows = [result[at : at + grid[1]] for at in range(0, N, grid[1])]
    assert np.array_equal(np.block(rows), plate[1:-1, 1:-1])
    cuts = (grid[0] - 1) + (grid[1] - 1)
    assert moved == sweeps * 2 * 8 * side * cuts


def from_each(roads: Any) -> Any:
    """Return the lengths of all shortest paths, by Dijkstra's algorithm."""
    n, result = len(roads), np.full(roads.shape, 10**9)
    for start in range(n):
        queue = [(0, start)]
        while queue:
            length, at = heapq.heappop(queue)
            if length >= result[start, at]:
                continue
            result[start, at] = length
            for to in range(n):
                heapq.heappush(queue, (length + int(roads[at, to]), to))
    return result


def whole(parts: list[Any]) -> Any:
    """Return the rows that were dealt out, in their order."""
    made = np.empty((sum(map(len, parts)), parts[0].shape[1]), parts[0].dtype)
    for rank, part in enumerate(parts):
        made[rank :: len(parts)] = part
    return made


@pytest.mark.lasting("descriptor", "thread")
def test_shortest_paths_are_dijkstras_but_for_the_race(
    stage: Scene, names: dict[str, Any]
) -> None:
    n = 12
    roads = np.random.default_rng(3).integers(1, 100, (n, n))
    np.fill_diagonal(roads, 0)
    wanted = from_each(roads)

    def rows(group: kit.Group) -> Any:
        return roads[group.rank :: N].copy()

    by_rows, moved = played(stage, lambda g: names["shortest_paths"](g, rows(g)))
    asked, again = played(
        stage, lambda g: names["paths_by_messages"](g, rows(g), True, 0.1)
    )
    race, _ = played(
        stage, lambda g: names["paths_by_messages"](g, rows(g), False, 0.5)
    )

    assert np.array_equal(whole(by_rows), wanted)
    assert np.array_equal(whole(asked), wanted)
    assert moved == again == 8 * n * n * (N - 1)
    assert not np.array_equal(whole(race), wanted)


@pytest.mark.lasting("descriptor", "thread")
def test_elimination_solves_what_numpy_solves(
    stage: Scene, names: dict[str, Any]
) -> None:
    n = 10
    system = np.random.default_rng(4).random((n, n + 1)) + 9 * np.eye(n, n + 1)

    result, moved = played(
        stage, lambda g: names["eliminate"](g, system[g.rank :: N].copy())
    )

    triangle = whole(result)
    assert np.abs(np.tril(triangle[:, :n], -1)).max() < 1e-12
    np.testing.assert_allclose(
        np.linalg.solve(np.triu(triangle[:, :n]), triangle[:, n]),
        np.linalg.solve(system[:, :n], system[:, n]),
    )
    assert moved == 4 * n * (n + 3) * (N - 1)


@pytest.mark.lasting("descriptor", "thread")
def test_sample_sort_sorts_all_that_there_is(
    stage: Scene, names: dict[str, Any]
) -> None:
    numbers = np.random.default_rng(5).standard_normal((N, 50))

    result, moved = played(stage, lambda g: names["sample_sort"](g, numbers[g.rank]))

    parts = [part for part, _ in result]
    assert np.array_equal(np.concatenate(parts), np.sort(numbers.ravel()))
    pairs = zip(parts, numbers, strict=True)
    stays = sum(np.isin(part, own).sum() for part, own in pairs)
    assert stays == sum(stayed for _, stayed in result)
    assert moved == 8 * N * N * (N - 1) + 8 * (numbers.size - stays)
    assert max(map(len, parts)) < 2 * 50


@pytest.mark.lasting("descriptor", "thread")
def test_branch_and_bound_finds_the_best_of_all_tours(
    stage: Scene, names: dict[str, Any]
) -> None:
    n = 7
    at = np.random.default_rng(6).random((n, 2))
    lengths = np.linalg.norm(at[:, None] - at, axis=2)

    def program(group: kit.Group) -> Any:
        which = names["worker"] if group.rank else names["master"]
        return which(group, lengths)

    result, moved = played(stage, program)

    def length(tour: Any) -> float:
        return float(sum(lengths[a, b] for a, b in pairwise((0, *tour, 0))))

    best = min(map(length, permutations(range(1, n))))
    assert result[0][0] == pytest.approx(best)
    assert length(result[0][1][1:]) == pytest.approx(best)
    beginnings = (n - 1) * (n - 2)
    assert sum(result[1:]) == beginnings
    assert moved == (beginnings + N - 1) * (8 * (n + 1) + 32)
