"""What may go wrong around a cluster, in a real kernel, and what it says then.

The kernel has neither ipywidgets nor jupyter_bokeh, so that all of this is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.magics.kernel import Answer, Kernel, kernel

pytestmark = [
    pytest.mark.engines,
    pytest.mark.slow,
    pytest.mark.timeout(150),
    pytest.mark.usefixtures("loop_of_the_client"),
]

HIDE = "import sys\nsys.modules['ipywidgets'] = sys.modules['jupyter_bokeh'] = None\n"
SMALL = """from kit import machine
machine_s_memory = machine.memory
machine.memory = lambda: machine.MachineMemory(1024, 450, is_contained=True)
"""
LARGE_AGAIN = "machine.memory = machine_s_memory"
TRAIN = """%%cluster --reuse
run = kit.train(good, {"w": np.zeros(10)}, data, topology="ring")
await run
"""
IMPORTS = "import numpy as np\nimport kit"
STEP = """
def step(params, batch):
    x, = batch
    return 0.0, {"w": x @ params["w"]}
data = (np.zeros((64, 3)),)
"""
GOOD = """
def good(params, batch):
    return 0.0, {"w": np.zeros(10)}
"""

# Tells when the main thread is where the stop button is to find it.
TELL = """
import sys, threading, time, traceback
def tell():
    main = threading.main_thread().ident
    def is_waiting():
        frames = traceback.extract_stack(sys._current_frames()[main])
        return any("/kit/training/client/" in frame.filename for frame in frames)
    while not is_waiting():
        time.sleep(0.01)
    print("in the wait", flush=True)
threading.Thread(target=tell).start()
"""


@pytest.fixture(scope="module")
def bare(
    loop_of_the_client: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """A notebook with the extension, and no cluster."""
    with kernel(tmp_path_factory.mktemp("run")) as result:
        loaded = result.run(f"{HIDE}%load_ext kit")
        assert "run: pip install ipywidgets jupyter_bokeh" in loaded.printed, loaded
        yield result


@pytest.fixture(scope="module")
def notebook(bare: Kernel) -> Iterator[Kernel]:
    """The same with two workers and no parameter server."""
    started = bare.run("%%cluster --ps 0 --worker 2")
    assert started.result.startswith("Cluster ready: worker=2"), started
    for cell in (IMPORTS, STEP, GOOD):
        assert bare.run(cell).status == "ok"
    yield bare
    bare.run("%cluster stop")


def test_a_cluster_that_does_not_fit_is_refused_with_the_number_that_would(
    bare: Kernel,
) -> None:
    bare.run(SMALL)
    answer = bare.run("%%cluster --worker 20\nprint('never')")
    bare.run(LARGE_AGAIN)

    assert answer.traceback == (
        "NotEnoughMemory: ps=1, worker=20 needs about 1,420 MiB; 450 MiB of the 1,024 "
        "MiB of this container are free. ps=1, worker=3 would fit."
    )
    assert answer.printed == ""
    assert bare.run("%cluster").printed.startswith("no cluster is running")


def test_one_that_does_not_fit_does_not_end_the_one_that_runs(notebook: Kernel) -> None:
    notebook.run(SMALL)
    answer = notebook.run("%%cluster --restart --worker 20")
    notebook.run(LARGE_AGAIN)

    assert answer.traceback.startswith("NotEnoughMemory: ps=1, worker=20 needs about")
    assert "Cluster ready: worker=2" in notebook.run("%cluster").result


def test_the_memory_that_is_taken_is_shown_beside_the_limit(notebook: Kernel) -> None:
    (shown,) = notebook.run("%cluster").shown

    result = re.search(
        r"memory: (\d+) MiB of the ([\d,]+) MiB of this", shown["text/html"]
    )
    assert result is not None
    assert 20 < int(result[1]) < 1000
    assert int(result[2].replace(",", "")) > int(result[1])


def test_all_of_it_works_as_text_without_widgets(notebook: Kernel) -> None:
    trained = notebook.run(TRAIN)
    looked = notebook.run("%%on worker:0\nprint('hello')")

    assert trained.status == "ok", trained
    assert "Finished after step" in trained.result
    assert looked.printed == "worker:0 │ hello\n"


def test_a_training_over_servers_that_there_are_not_says_what_to_do(
    notebook: Kernel,
) -> None:
    answer = notebook.run(TRAIN.replace('"ring"', '"ps"'))

    assert answer.traceback.startswith(
        "InvalidArgumentError: topology 'ps' needs a parameter server and there is "
        "none; start the cluster with ps=1, or use topology='ring'."
    )


def test_tab_in_a_kernel_offers_what_may_stand_there(notebook: Kernel) -> None:
    assert notebook.complete("%%cluster --wo") == ["--worker"]
    assert notebook.complete("%%on wor") == ["worker", "worker:0", "worker:1"]
    assert notebook.complete("%topology ri") == ["ring", "ring-whole"]
    assert notebook.complete("%cluster re") == ["restart", "remove"]
    device = "import kit\nwith kit.device('/job:w"
    tasks = [f"/job:worker/task:{index}" for index in (0, 1)]
    assert notebook.complete(device) == ["/job:worker", *tasks]


# -- mistakes around a training take twelve lines --------------------------------------


def lines(answer: Answer) -> list[str]:
    assert answer.status == "error", answer
    result = answer.traceback.splitlines()
    assert result[-1] == "%tb shows the whole traceback."
    assert len(result) <= 12, answer.traceback
    return result


def test_step_that_fails_on_an_engine_is_shown_with_its_own_line(
    notebook: Kernel,
) -> None:
    answer = notebook.run(
        "run = kit.train(step, {'w': np.zeros(10)}, data, topology='ring')\nrun.wait()"
    )

    result = lines(answer)
    assert result[0].startswith("StepFailed: /job:worker/task:")
    assert '----> 3     return 0.0, {"w": x @ params["w"]}' in result
    assert "----> 2 run.wait()" in result
    assert re.fullmatch(r"Cell In\[\d+\], line 3, in step, on worker:[01]", result[2])
    assert 'return 0.0, {"w": x @ params["w"]}' in notebook.run("%tb").traceback


def test_mistakes_around_a_training_take_twelve_lines(notebook: Kernel) -> None:
    begin = "kit.train(good, {'w': np.zeros(10)}, data, topology=%r, steps=10**6)"

    wrong_name = lines(notebook.run(begin % "rign"))
    notebook.run(f"run = {begin % 'ring'}")
    second = lines(notebook.run(begin % "ring"))
    wrong_command = lines(notebook.run("run.topology = 'ps'"))
    notebook.run("run.stop()\nrun.wait()")

    assert "Did you mean 'ring'?" in wrong_name[0]
    assert second[0].startswith("ClusterBusy: ")
    assert wrong_command[0].startswith("InvalidArgumentError: ")
    assert "----> 1 run.topology = 'ps'" in wrong_command


def test_stop_button_in_a_wait_says_that_the_training_is_paused(
    notebook: Kernel,
) -> None:
    notebook.run(
        "run = kit.train(good, {'w': np.zeros(10)}, data, topology='ring', steps=10**6)"
    )

    result = lines(notebook.run(f"{TELL}\nrun.wait()", stop_at="in the wait"))
    paused = notebook.run("run.look(); print(run.state)")
    notebook.run("run.stop()\nrun.wait()")

    assert result[0].startswith("WaitInterrupted: the wait was interrupted, and")
    assert "run.resume() goes on with it" in result[0]
    assert paused.printed == "paused\n"


def test_stop_button_pauses_an_awaited_run_and_a_deadline_does_not(
    notebook: Kernel,
) -> None:
    look = "run.look(); print(run.state)"
    notebook.run(
        "import asyncio\n"
        "run = kit.train(good, {'w': np.zeros(10)}, data, topology='ring', steps=10**6)"
    )

    late = notebook.run("await asyncio.wait_for(run, 0.01)")
    own = notebook.run(
        "async def watch():\n    await run\n"
        "mine = asyncio.ensure_future(watch())\n"
        "await asyncio.sleep(0)\nmine.cancel()\nawait mine"
    )
    going_on = notebook.run(look)
    result = lines(notebook.run("print('begun')\nawait run", stop_at="begun"))
    paused = notebook.run(look)
    notebook.run("run.stop()\nawait run")

    assert "TimeoutError" in late.traceback
    assert "CancelledError" in own.traceback
    assert going_on.printed == "running\n"
    assert result[0].startswith("WaitInterrupted: the wait was interrupted, and")
    assert "run.resume() goes on with it, await run waits again" in result[0]
    assert "----> 2 await run" in result
    assert paused.printed == "paused\n"


def test_stop_button_ends_a_cell_that_awaits_a_call_or_a_checkpoint(
    notebook: Kernel, tmp_path: Path
) -> None:
    go, begun, folder = (str(tmp_path / name) for name in ("go", "begun", "saved"))
    notebook.run(
        "import os, time\ncluster = kit.current_cluster()\n"
        "def held(*given):\n"
        f"    open({begun!r}, 'a').close()\n"
        f"    while not os.path.exists({go!r}):\n"
        "        time.sleep(0.01)\n"
        "    return good(*given) if given else None\n"
    )

    called = notebook.run(
        "print('begun')\nawait cluster.call_async('worker:0', held)",
        stop_at="begun",
    )
    Path(go).touch()  # the engine is at it until now
    notebook.run("cluster.call('worker:0', int)")
    Path(go).unlink()
    Path(begun).unlink()
    trained = notebook.run(
        "run = kit.train(held, {'w': np.zeros(10)}, data, topology='ring',\n"
        f"                steps=10**6, checkpoint={folder!r})\n"
        f"while not os.path.exists({begun!r}): time.sleep(0.01)"
    )
    saved = notebook.run("print('begun')\nawait run.save()", stop_at="begun")
    Path(go).touch()
    notebook.run("run.stop()\nawait run")

    assert "CancelledError" in called.traceback
    assert trained.status == "ok", trained.traceback
    assert "CancelledError" in saved.traceback
