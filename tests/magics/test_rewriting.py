"""A cell with our magics awaits where that is possible; others stay as they were."""

from __future__ import annotations

import ast
import asyncio

import pytest
from IPython.core.interactiveshell import InteractiveShell

from kit.magics.rewriting import rewritten
from tests.cases import for_each
from tests.magics.stage import FakeCluster

CALL = "await get_ipython().magics_manager.registry['{}'].begin({})\n"


@for_each(
    "cell",
    [
        "x = 1\n",
        "%%px\n1\n",
        "%%clusters\n1\n",
        "%%only worker\n1\n",
        "%cluster status\n",
        "%%cluster?\n",
        "%%on worker?\n",
        "\n%%cluster\n",
        "",
    ],
)
def test_other_cells_stay_as_they_are(cell: str) -> None:
    lines = cell.splitlines(keepends=True)

    assert rewritten(lines) == lines


def test_the_body_keeps_its_line_numbers() -> None:
    lines = ["%%cluster --ps 1\n", "\n", "x = 1\n", "await run\n"]

    result = rewritten(lines)

    assert result == [CALL.format("StartMagics", "'--ps 1'"), *lines[1:]]


def test_comments_may_stand_above_the_magic() -> None:
    ours = rewritten(["# Look at it.\n", "#\n", "%%on worker\n", "1\n"])
    others = ["# Look at it.\n", "x = 1\n", "%%on worker\n"]

    call = CALL.format("OnMagics", "'worker', '1\\n'")
    assert ours == ["# Look at it.\n", "#\n", call]
    assert rewritten(others) == others
    assert rewritten(["# nothing\n"]) == ["# nothing\n"]


def test_quotes_in_a_line_or_cell_do_no_harm() -> None:
    (result,) = rewritten(["%%on 'a' \"b\"\n", "'''\"\\n\n"])

    (call,) = [n for n in ast.walk(ast.parse(result)) if isinstance(n, ast.Call)][:1]
    inputs = [ast.literal_eval(argument) for argument in call.args]
    assert inputs == ["'a' \"b\"", "'''\"\\n\n"]


def test_a_cell_magic_may_follow_the_line_of_the_cluster() -> None:
    ours = rewritten(["%%cluster\n", "\n", "%%on worker\n", "1\n"])
    others = rewritten(["%%cluster\n", "%%px\n", "1\n"])

    assert ours[1:] == ["\n", CALL.format("OnMagics", "'worker', '1\\n'")]
    assert others[1] == "get_ipython().run_cell_magic('px', '', '1\\n')\n"


def test_a_cell_awaits_and_the_event_loop_goes_on_meanwhile(
    shell: InteractiveShell, cluster: FakeCluster
) -> None:
    ticks: list[int] = []
    cluster.n_looks = 1

    async def both() -> None:
        async def tick() -> None:
            while True:
                ticks.append(len(cluster.codes))
                await asyncio.sleep(0)

        ticker = asyncio.ensure_future(tick())
        await asyncio.sleep(0)
        text = "%%on worker --each\n1"
        cell = shell.transform_cell(text)  # type: ignore[no-untyped-call]
        done = await shell.run_cell_async(
            text, transformed_cell=cell, preprocessing_exc_tuple=None
        )
        ticker.cancel()
        done.raise_error()  # type: ignore[no-untyped-call]

    asyncio.run(both())

    assert len(set(ticks)) > 1  # it ran between the cells of the tasks


def test_a_cell_within_another_magic_does_not_await(
    shell: InteractiveShell, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async def outer() -> None:
        # The loop runs already, as in a notebook: an `await` inside would fail.
        done = await shell.run_cell_async(
            "%%capture found\n%%on ps\n1",
            transformed_cell="get_ipython().run_cell_magic("
            "'capture', 'found', '%%on ps\\n1')",
            preprocessing_exc_tuple=None,
        )
        done.raise_error()  # type: ignore[no-untyped-call]

    asyncio.run(outer())

    assert cluster.codes == [("ps:0", "1\n")]
    assert capsys.readouterr().out == ""
    assert str(shell.user_ns["found"]).startswith("ps:0 │ ran 1 line")
