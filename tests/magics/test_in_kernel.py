"""The magics in a real kernel with real engines, used as a front end uses them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.magics.kernel import Kernel, kernel

pytestmark = [
    pytest.mark.engines,
    pytest.mark.slow,
    pytest.mark.timeout(150),
    pytest.mark.usefixtures("loop_of_the_client"),
]

TRAIN = """%%cluster
import numpy as np
import kit
def step(params, batch):
    return 0.0, {"w": np.zeros(1000)}
data = (np.zeros((64, 3)),)
run = kit.train(step, {"w": np.zeros(1000)}, data, steps=10**6, link="10mbit")
"""


@pytest.fixture(scope="module")
def notebook(
    loop_of_the_client: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """A notebook in which the cluster was started: ps:0, worker:0, worker:1."""
    with kernel(tmp_path_factory.mktemp("run")) as result:
        assert result.run("%load_ext kit").status == "ok"
        started = result.run("%%cluster --ps 1 --worker 2\nstarted = 'yes'\nstarted")
        assert started.result == "'yes'", started
        yield result
        result.run("%cluster stop")


def test_a_start_shows_each_task_and_ends_with_a_table_of_them(tmp_path: Path) -> None:
    with kernel(tmp_path) as result:
        result.run("%load_ext kit")
        answer = result.run("%%cluster --ps 1 --worker 1")
        texts = [str(row["text/plain"]) for row in answer.shown]

        assert len(texts) > 3
        assert any("waits for the controller" in text for text in texts)
        assert any("registers" in text for text in texts)
        assert texts[-1].startswith("Cluster ready: ps=1 worker=1")
        assert re.search(r"worker:0  ready +\d+\.\d$", texts[-1], re.M)
        assert re.search(r"^memory: about 280 MiB of the [\d,]+ MiB of", texts[0], re.M)
        assert re.search(r"^memory: \d+ MiB of the [\d,]+ MiB of this", texts[-1], re.M)
        assert "<table" in answer.shown[-1]["text/html"]
        assert result.run("%cluster stop").printed.startswith("Cluster stopped")
        assert list(tmp_path.glob("psring-*")) == []


def test_output_is_labelled_and_comes_while_the_cell_runs(notebook: Kernel) -> None:
    answer = notebook.run(
        "%%on worker\n"
        "import time, kit\n"
        "for i in range(3):\n"
        "    print(i, kit.this_server().task.index, flush=True)\n"
        "    time.sleep(0.4)\n"
        "i * 10"
    )

    assert answer.status == "ok"
    for index in (0, 1):
        head = f"worker:{index} │ "
        mine = [line for line in answer.printed.splitlines() if line.startswith(head)]
        expected = [*(f"{i} {index}" for i in range(3)), "Out: 20"]
        assert mine == [head + text for text in expected]
    first = next(at for at, text in answer.arrivals if "0 0" in text)
    last = next(at for at, text in answer.arrivals if "Out: 20" in text)
    assert last - first > 0.6


def test_rich_output_is_kept_and_updated_in_its_place(notebook: Kernel) -> None:
    answer = notebook.run(
        "%%on worker:0\n"
        "from IPython.display import HTML, display\n"
        "shown = display(HTML('one'), display_id='place')\n"
        "shown.update(HTML('two'))"
    )

    assert [row["text/html"] for row in answer.shown] == ["one", "two"]
    assert answer.printed == "worker:0 │ shows:\n"


def test_errors_are_told_once_with_the_traceback_of_the_cell(notebook: Kernel) -> None:
    answer = notebook.run("%%on worker\ndef inner():\n    1 / 0\ninner()")

    assert answer.status == "error"
    assert "----> 3 inner()" in answer.traceback.replace("4", "3")
    assert answer.traceback.endswith(
        "worker:0 raised ZeroDivisionError: division by zero "
        "(1 more like this: worker:1)"
    )
    assert "kit/" not in answer.traceback


@pytest.mark.parametrize("line", ["worker:1", "worker --timeout 30"])
def test_the_stop_button_reaches_the_engines_and_the_cluster_goes_on(
    notebook: Kernel, line: str
) -> None:
    cell = f"%%on {line}\nimport time\nprint('begun')\ntime.sleep(50)"
    answer = notebook.run(cell, stop_at="begun")

    assert answer.status == "error"
    assert answer.traceback.startswith("KeyboardInterrupt: interrupted on worker:")
    assert answer.traceback.endswith("the cluster goes on.")
    again = notebook.run("%%on worker:1\nprint('again')")
    assert again.printed == "worker:1 │ again\n"


def test_the_stop_button_ends_a_call_in_one_line(notebook: Kernel) -> None:
    answer = notebook.run(
        "import pathlib, tempfile, threading, time, kit\n"
        "cluster = kit.current_cluster()\n"
        "begun = pathlib.Path(tempfile.mkdtemp(), 'begun')\n"
        "def hang(path):\n"
        "    path.touch()\n"
        "    time.sleep(50)\n"
        "def tell():\n"
        "    while not begun.exists():\n"
        "        time.sleep(0.01)\n"
        "    print('begun', flush=True)\n"
        "threading.Thread(target=tell).start()\n"
        "cluster.call('worker', hang, begun)",
        stop_at="begun",
    )

    first, *_, last = answer.traceback.splitlines()
    assert first == (
        "CallInterrupted: interrupted, and so were the tasks that had not returned "
        "from hang() yet; the cluster goes on."
    )
    assert last == "%tb shows the whole traceback."
    assert notebook.run("cluster.call('worker', int)").result == "[0, 0]"


def test_the_stop_button_cancels_what_a_cell_on_tasks_awaits(notebook: Kernel) -> None:
    cell = "%%on worker\nimport asyncio\nprint('begun')\nawait asyncio.sleep(50)"
    answer = notebook.run(cell, stop_at="begun")
    again = notebook.run("# once more\n%%on worker:1\nawait asyncio.sleep(0, 'slept')")

    assert answer.traceback.startswith("KeyboardInterrupt: interrupted on worker:")
    assert again.printed == "worker:1 │ Out: 'slept'\n"


@pytest.mark.parametrize("code", ["exit()", "quit", "raise KeyboardInterrupt"])
def test_a_cell_that_wants_to_end_does_not_end_its_task(
    notebook: Kernel, code: str
) -> None:
    notebook.run("%%on worker:1\nkept = 'kept'")

    answer = notebook.run(f"%%on worker:1\n{code}")

    assert answer.status == "error"
    assert "worker:1 raised" in answer.traceback
    # The end would come some time later.
    left = notebook.run("%%on worker:1\nkept, get_ipython().exit_now")
    assert left.printed == "worker:1 │ Out: ('kept', False)\n"


def test_a_deadline_ends_the_cell_and_names_who_is_late(notebook: Kernel) -> None:
    answer = notebook.run("%%on all --timeout 0.5\nimport time\ntime.sleep(50)")

    assert answer.traceback.startswith(
        "DeadlineExceededError: ps:0, worker:0, worker:1 have not answered within 0.5 s"
    )
    assert notebook.run("%%on ps\n1").printed == "ps:0 │ Out: 1\n"


def test_the_event_loop_of_the_notebook_goes_on_during_a_cell(notebook: Kernel) -> None:
    notebook.run(
        "import asyncio\n"
        "ticks = 0\n"
        "async def tick():\n"
        "    global ticks\n"
        "    while ticks < 1000:\n"
        "        ticks += 1\n"
        "        await asyncio.sleep(0.02)\n"
        "ticker = asyncio.ensure_future(tick())"
    )
    before = int(notebook.run("ticks").result)

    notebook.run("%%on worker\nimport time\ntime.sleep(1)")
    after = int(notebook.run("ticks").result)
    notebook.run("ticker.cancel()")

    assert after - before > 15


def test_a_body_that_raises_keeps_its_line_and_the_cluster(notebook: Kernel) -> None:
    answer = notebook.run("%%cluster\n\nraise ValueError('mine')")

    assert answer.status == "error"
    assert "----> 3 raise ValueError('mine')" in answer.traceback
    assert "Cluster ready" in notebook.run("%cluster").result


def test_a_body_may_await_and_shows_its_last_value(notebook: Kernel) -> None:
    answer = notebook.run(
        "%%cluster\nimport asyncio\nawait asyncio.sleep(0.01, 'slept')"
    )

    assert answer.result == "'slept'"
    assert answer.printed.startswith("Used again: <Cluster ready: ps=1 worker=2")


def test_the_magics_of_ipyparallel_work_beside_ours(notebook: Kernel) -> None:
    answer = notebook.run("%%px\nprint('from px')")

    assert answer.status == "ok"
    texts = [str(row["text/plain"]) for row in answer.shown]
    assert sum("from px" in text for text in texts) == 3
    again = notebook.run("%pxresult")
    assert (again.printed + str(again.shown)).count("from px") == 3


def test_autopx_gets_cells_with_our_magics_as_they_are(notebook: Kernel) -> None:
    notebook.run("%autopx")
    notebook.run("here = 'on the engine'")
    answer = notebook.run("%%on worker\nhere")
    notebook.run("%autopx")

    assert "Cell magic `%%on` not found" in answer.errors + str(answer.shown)
    assert notebook.run("%%on worker:1\nhere").printed == (
        "worker:1 │ Out: 'on the engine'\n"
    )


def test_a_running_training_is_looked_into_switched_and_protected(
    notebook: Kernel,
) -> None:
    assert notebook.run(TRAIN).status == "ok"

    looked = notebook.run("%%on worker:1\nprint('still here')")
    switched = notebook.run("%topology ring")
    again = notebook.run(TRAIN.removeprefix("%%cluster\n"))
    other = notebook.run("%%cluster --worker 1")
    restart = notebook.run("%cluster restart worker:1")
    notebook.run("run.stop()\nrun.wait()")

    assert looked.printed == "worker:1 │ still here\n"
    assert re.match(
        r"ring since step \d+, running at step \d+ of 1000", switched.printed
    )
    assert again.traceback.startswith("ClusterBusy: /job:worker/task:0 is at step ")
    assert "ring" in again.shown[-1]["text/plain"]  # the board that was there before
    assert other.traceback.startswith(
        "ClusterBusy: a training runs on the cluster with"
    )
    assert restart.traceback.startswith("ClusterBusy: cannot restart worker:1 while a")
    assert notebook.run("run.topology").result == "'ring'"


def test_what_steps_print_is_one_output_below_the_cell_that_runs(
    notebook: Kernel,
) -> None:
    begun = notebook.run(
        "import numpy as np, pathlib, tempfile, time\n"
        "go = pathlib.Path(tempfile.mkdtemp(), 'go')\n"
        "def step(params, batch, state):\n"
        "    while not go.exists():\n"
        "        time.sleep(0.01)\n"
        "    state['n'] = state.get('n', 0) + 1\n"
        "    print('step', state['n'])\n"
        "    return 0.0, {'w': np.zeros(3)}\n"
        "run = kit.train(step, {'w': np.zeros(3)}, np.zeros((64, 3)), steps=3)"
    )
    waited = notebook.run("go.touch()\nrun.wait().state")

    assert begun.shown == []
    *shown, state = [str(row["text/plain"]) for row in waited.shown]
    assert state == "'done'"
    assert all(later.startswith(text) for text, later in itertools.pairwise(shown))
    for name in ("worker:0", "worker:1"):
        mine = [line for line in shown[-1].splitlines() if line.startswith(name)]
        assert mine == [f"{name} │ step {n}" for n in (1, 2, 3)]


@pytest.mark.lasting("process")
def test_a_restarted_task_has_the_same_name_and_none_of_its_old_values(
    notebook: Kernel,
) -> None:
    notebook.run("%%on worker\nkept = 1")

    restarted = notebook.run("%cluster restart worker:1")
    answer = notebook.run(
        "%%on worker\nimport kit\nprint(kept, kit.this_server().task)"
    )

    assert restarted.printed.startswith("worker:1 has a new process after")
    assert "worker:0 │ 1 /job:worker/task:0" in answer.printed
    assert answer.traceback.endswith(
        "worker:1 raised NameError: name 'kept' is not defined"
    )


@pytest.mark.lasting("process")
def test_a_task_is_added_and_removed(notebook: Kernel) -> None:
    added = notebook.run("%cluster add worker")
    answer = notebook.run("%%on worker\nimport kit\nprint(kit.this_server().task)")
    removed = notebook.run("%cluster remove worker:2")
    without = notebook.run("%cluster add")

    assert added.printed.startswith("worker:2 is ready after")
    assert "worker:2 │ /job:worker/task:2" in answer.printed
    assert removed.printed == "worker:2 has ended, and is not a task any more.\n"
    assert without.errors.startswith("UsageError: %cluster add needs a job")
    assert "worker:2" not in notebook.run("%%on all\nprint('here')").printed


@pytest.mark.lasting("process")
def test_a_task_that_dies_in_a_cell_is_told_and_can_be_restarted(
    notebook: Kernel,
) -> None:
    died = notebook.run(
        "%%on worker\n"
        "import os, kit\n"
        "print('alive', flush=True)\n"
        "if kit.this_server().task.index:\n"
        "    os._exit(3)"
    )
    status = notebook.run("%cluster")
    restarted = notebook.run("%cluster restart worker:1")

    assert died.traceback == "PeerLost: worker:1 exited with status 3"
    assert "worker:0 │ alive\n" in died.printed
    assert "lost: worker:1" in str(status.shown)
    assert restarted.status == "ok"
    assert notebook.run("%%on worker:1\n1").printed == "worker:1 │ Out: 1\n"
