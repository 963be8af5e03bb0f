"""From the figures of the benchmarks to the lines that are worth drawing.

Pure: JSON values in, numbers out. A benchmark without an entry here has a table only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.results import median
from kit.exchange.topologies.time_model import Case, CostModel, Rates, Sharing

Figures = dict[str, Any]  # a benchmark's own, as its JSON file holds them


class Line(NamedTuple):
    """One line: what it shows, and its places, from left to right."""

    label: str
    xs: list[float]
    ys: list[float]
    is_model: bool = False


class Chart(NamedTuple):
    """Lines that are compared; both axes are logarithmic."""

    title: str
    x: str
    y: str
    lines: list[Line]


def charts(name: str, figures: Figures) -> list[Chart]:
    """Return what to draw of a benchmark's figures; nothing for an unknown one."""
    return list(_CHARTS[name](figures)) if name in _CHARTS else []


def _line(label: str, values: dict[str, list[float]]) -> Line:
    places = sorted((float(x), median(ys)) for x, ys in values.items())
    return Line(label, [x for x, _ in places], [y for _, y in places])


def _allreduce(figures: Figures) -> Iterator[Chart]:
    for members, by_size in figures["microseconds"].items():
        systems = dict.fromkeys(name for took in by_size.values() for name in took)
        lines = [
            _line(system, {size: took[system] for size, took in by_size.items()})
            for system in systems
        ]
        title = f"All-reduce, {members} members"
        yield Chart(title, "bytes", "microseconds", lines)


def _many_parameters(figures: Figures) -> Iterator[Chart]:
    lines = [_line(what, took) for what, took in figures["microseconds"].items()]
    yield Chart("A step of equal bytes", "parameters", "microseconds", lines)


def _scaling(figures: Figures) -> Iterator[Chart]:
    points, model = figures["points"], _model(figures)
    topologies = dict.fromkeys(point["topology"] for point in points)
    for topology in topologies:
        own = [point for point in points if point["topology"] == topology]
        yield Chart(
            f"Exchange, {topology}; dashed: the cost model",
            "bytes",
            "microseconds",
            [line for tasks in _tasks(own) for line in _times(own, tasks, model)],
        )
    for topology in topologies:
        own = [point for point in points if point["topology"] == topology]
        lines = [_memory(own, tasks) for tasks in _tasks(own)]
        yield Chart(f"Memory of all tasks, {topology}", "bytes", "bytes taken", lines)


Tasks = tuple[int, int]


def _tasks(points: list[Figures]) -> list[Tasks]:
    return sorted({(point["workers"], point["servers"]) for point in points})


def _of(points: list[Figures], tasks: Tasks) -> list[Figures]:
    mine = [point for point in points if (point["workers"], point["servers"]) == tasks]
    return sorted(mine, key=lambda point: float(point["bytes"]))


def _label(tasks: Tasks) -> str:
    workers, servers = tasks
    return f"{workers} workers" + (f", {servers} ps" if servers else "")


def _times(points: list[Figures], tasks: Tasks, model: CostModel) -> Iterator[Line]:
    mine = _of(points, tasks)
    xs = [float(point["bytes"]) for point in mine]
    label = _label(tasks)
    yield Line(label, xs, [median(point["exchange_us"]) for point in mine])
    cases = [
        Case(p["topology"], p["workers"], p["bytes"], p["servers"], p["buckets"])
        for p in mine
    ]
    if all(model.regime(case) in model.rates for case in cases):
        yield Line(label, xs, [model.predict(case) * 1e6 for case in cases], True)


def _memory(points: list[Figures], tasks: Tasks) -> Line:
    mine = _of(points, tasks)
    xs = [float(point["bytes"]) for point in mine]
    return Line(_label(tasks), xs, [float(point["memory"]) for point in mine])


def _model(figures: Figures) -> CostModel:
    names = Rates._fields
    rates = {
        (figure["topology"], Sharing(figure["sharing"])): Rates(
            *(figure[n] for n in names)
        )
        for figure in figures["rates"]
    }
    return CostModel(rates, figures["cores"])


_CHARTS: dict[str, Callable[[Figures], Iterator[Chart]]] = {
    "allreduce": _allreduce,
    "many_parameters": _many_parameters,
    "scaling": _scaling,
}
