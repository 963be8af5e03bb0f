"""An error of the kit in a notebook takes twelve lines, and `%tb` has all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import kit
from kit.magics.short_traceback import with_source
from tests.magics.kernel import Answer, Kernel, kernel
from tests.magics.stage import Cells

MOST = 12


FAILING = "import kit\nkit.Adam(learning_rate='fast')"


def test_error_of_the_kit_is_its_sentence_and_the_line_of_the_cell_until_asked(
    cells: Cells,
) -> None:
    result = cells.failing(FAILING)
    whole = cells.shown("%tb").splitlines()

    assert result[0].startswith("InvalidArgumentError: ")
    assert result[-1] == "%tb shows the whole traceback."
    assert "----> 2 kit.Adam(learning_rate='fast')" in result
    assert len(result) <= MOST
    assert any("rules.py" in line or "rule.py" in line for line in whole)
    assert len(whole) > MOST


def test_verbose_mode_shows_the_whole_traceback_at_once(cells: Cells) -> None:
    cells.shown("%xmode Verbose")
    try:
        whole = cells.failing(FAILING)
    finally:
        cells.shown("%xmode Context")

    assert len(whole) > MOST


def test_other_errors_are_shown_as_before(cells: Cells) -> None:
    result = cells.failing("1 / 0")

    assert any(line.startswith("ZeroDivisionError") for line in result)
    assert "%tb shows the whole traceback." not in result


def test_long_message_is_cut_and_whole_on_the_error(cells: Cells) -> None:
    result = cells.failing(
        "import kit, sys\n"
        "raise kit.errors.UnknownError('\\n'.join(f'row {n}' for n in range(40)))"
    )

    assert result[:3] == ["UnknownError: row 0", "row 1", "..."]
    assert len(result) <= MOST
    assert "row 39" in str(cells.shell.user_ns["sys"].last_value)


def test_handler_that_somebody_else_has_set_stays(
    bare_shell: InteractiveShell,
) -> None:
    bare_shell.set_custom_exc((OSError,), None)  # type: ignore[no-untyped-call]
    try:
        kit.load_ipython_extension(bare_shell)
        loaded = bare_shell.custom_exceptions
        kit.unload_ipython_extension(bare_shell)

        assert loaded == bare_shell.custom_exceptions == (OSError,)
    finally:
        bare_shell.set_custom_exc((), None)  # type: ignore[no-untyped-call]


def test_lines_that_the_engine_does_not_have_are_put_in() -> None:
    bare = f'  File "{__file__}", line 1, in step\nValueError: no\n'

    assert with_source(bare) == (
        f'  File "{__file__}", line 1, in step\n    {_first_line()}\nValueError: no\n'
    )
    assert with_source(with_source(bare)) == with_source(bare)


def _first_line() -> str:
    assert __doc__ is not None
    return f'"""{__doc__}"""'


# In a kernel, with engines.

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
def notebook(
    loop_of_the_client: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    with kernel(tmp_path_factory.mktemp("run")) as result:
        result.run("%load_ext kit")
        started = result.run("%%cluster --ps 0 --worker 2")
        assert started.status == "ok", started
        for cell in (IMPORTS, STEP, GOOD):
            assert result.run(cell).status == "ok"
        yield result
        result.run("%cluster stop")


def lines(answer: Answer) -> list[str]:
    assert answer.status == "error", answer
    result = answer.traceback.splitlines()
    assert result[-1] == "%tb shows the whole traceback."
    assert len(result) <= MOST, answer.traceback
    return result


@pytest.mark.slow
@pytest.mark.engines
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


@pytest.mark.slow
@pytest.mark.engines
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


@pytest.mark.slow
@pytest.mark.engines
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


@pytest.mark.slow
@pytest.mark.engines
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


@pytest.mark.slow
@pytest.mark.engines
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
