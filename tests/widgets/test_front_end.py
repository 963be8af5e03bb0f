"""Which cells of a notebook have BokehJS, from a kernel that only records."""

from __future__ import annotations

from typing import Any

import pytest

from widgets.drawing import front_end


class Notebook:
    """A kernel, and the outputs of its cells; a page sends its messages."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[dict[str, str]]] = {}
        self.page, self._n = "page-1", 0
        self._parent: dict[str, Any] = {}

    def get_parent(self) -> dict[str, Any]:
        return self._parent

    def _sent(self, cell: str) -> None:
        self._n += 1
        header = {"session": self.page, "msg_id": str(self._n)}
        self._parent = {"header": header, "metadata": {"cellId": cell}}

    def run(self, cell: str, n_boards: int = 1) -> None:
        """Run a cell with so many boards; its older outputs are gone."""
        self._sent(cell)
        self.outputs[cell] = []
        for _ in range(n_boards):
            front_end.load_bokeh()

    def draw(self) -> None:
        """Let a figure tell that it was drawn."""
        self._sent("")
        front_end.page_draws()

    def show(self, bundle: dict[str, str]) -> Any:
        cell = self._parent["metadata"]["cellId"]
        self.outputs[cell].append(bundle)
        return Output(bundle)

    def holders(self) -> list[str]:
        """Return the cells that hold BokehJS."""
        return [
            cell
            for cell, bundles in self.outputs.items()
            for bundle in bundles
            if "application/javascript" in bundle
        ]


class Output:
    """An output that can be replaced, as long as the page knows it."""

    def __init__(self, bundle: dict[str, str]) -> None:
        self._bundle = bundle

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        self._bundle.clear()
        self._bundle.update(bundle)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    result = Notebook()
    monkeypatch.setattr(front_end, "stored", front_end.Stored())
    monkeypatch.setattr(front_end, "bokeh_script", lambda: "all of BokehJS")
    monkeypatch.setattr(front_end, "kernel", lambda: result)
    monkeypatch.setattr(front_end, "show_bundle", result.show)
    return result


def test_many_boards_store_it_once(notebook: Notebook) -> None:
    notebook.run("a", n_boards=3)
    notebook.run("b")

    assert notebook.holders() == ["a"]


def test_a_cell_that_held_it_holds_it_again_when_it_is_run_again(
    notebook: Notebook,
) -> None:
    notebook.run("a")
    notebook.run("b")
    notebook.run("a", n_boards=2)

    assert notebook.holders() == ["a"]


def test_a_page_loaded_again_that_draws_stores_no_second_copy(
    notebook: Notebook,
) -> None:
    notebook.run("a")
    notebook.page = "page-2"
    notebook.draw()

    notebook.run("b")

    assert notebook.holders() == ["a"]


def test_a_page_loaded_again_without_it_gets_it(notebook: Notebook) -> None:
    notebook.run("a")
    notebook.outputs.clear()  # they were not saved
    notebook.page = "page-2"

    notebook.run("b")

    assert notebook.holders() == ["b"]


def test_another_kernel_knows_nothing_of_the_page(notebook: Notebook) -> None:
    notebook.run("a")
    front_end.stored.kernel = object()

    notebook.run("a")

    assert notebook.holders() == ["a"]
