"""JupyterLab as a reader sees it: a separate server and a browser without a window.

Nothing of the user's own Jupyter is read or written. The browser is the system's
Chromium; none is downloaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tests.zygote import forking

ROOT = Path(__file__).parents[2]
SCREENS = ROOT / "build" / "screens"
STOP_S = 60
OPTIONS = [
    *("--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"),
    "--expose-app-in-browser",  # its commands can be called then
]
READY_MS = 120_000
KERNEL_IS_IDLE = """() =>
    jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'
"""
IS_SHOWN = "path => jupyterapp.shell.currentWidget?.context?.path === path"
HIDE = """() => {
    Object.defineProperty(document, 'hidden', {value: true, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
SHOW = """() => {
    delete document.hidden;
    document.dispatchEvent(new Event('visibilitychange'));
}"""
PRINTED = """async code => {
    const {kernel} = jupyterapp.shell.currentWidget.sessionContext.session;
    const asked = kernel.requestExecute({code, store_history: false});
    let text = '';
    asked.onIOPub = ({header, content}) => {
        if (header.msg_type === 'stream') text += content.text;
    };
    await asked.done;
    return text;
}"""
SIZE: Any = {"width": 1024, "height": 1700}
ALL_HIGH = 5200  # high enough for a whole notebook, so that Lab lays out every cell


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.lasting("thread"),  # of playwright, which writes pictures in some
    pytest.mark.skipif(
        chromium() is None, reason="there is no chromium; apt-get install chromium"
    ),
]


class Lab(NamedTuple):
    """A folder that JupyterLab shows, and its address there, with the token."""

    folder: Path
    address: str
    home: Path  # of the server

    @contextmanager
    def below(self, name: str) -> Iterator[Lab]:
        """Make a folder in it; in the end no kernel runs and no setting is left."""
        folder, address = self.folder / name, self.address.replace("?", f"/{name}?")
        folder.mkdir()
        try:
            yield self._replace(folder=folder, address=address)
        finally:
            for session in self._ask("GET", "sessions"):
                self._ask("DELETE", f"sessions/{session['id']}")  # until it has ended
            set_as_new(self.home)

    def _ask(self, method: str, what: str) -> Any:
        server, token = self.address.split("lab/tree?token=")
        headers = {"Authorization": f"token {token}"}
        asked = Request(f"{server}api/{what}", headers=headers, method=method)
        with urlopen(asked, timeout=STOP_S) as answer:
            return json.loads(answer.read() or "null")


def set_as_new(home: Path) -> None:
    """Forget what was set and opened; ask nobody for news."""
    for name in ("settings", "workspaces"):
        shutil.rmtree(home / name, ignore_errors=True)
    quiet = home / "settings" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    news = {"fetchNews": "false", "checkForUpdates": False}
    (quiet / "notification.jupyterlab-settings").write_text(json.dumps(news))


@contextmanager
def jupyter_lab(folder: Path) -> Iterator[Lab]:
    """Serve the notebooks in `folder`."""
    home = folder / ".home"
    names = ("CONFIG", "DATA", "RUNTIME")
    own = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in names}
    for name in ("SETTINGS", "WORKSPACES"):
        own[f"JUPYTERLAB_{name}_DIR"] = str(home / name.lower())
    own |= {"IPYTHONDIR": str(home), "XDG_RUNTIME_DIR": str(home)}
    home.mkdir(mode=0o700)
    set_as_new(home)
    page = home / "config" / "labconfig" / "page_config.json"
    page.parent.mkdir(parents=True)
    page.write_text(json.dumps({"buildCheck": False}))  # by node, again and again
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with forking():
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--notebook-dir={folder}"],
            env={**os.environ, **own, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.stderr is not None
    try:
        result = None
        for line in process.stderr:
            result = re.search(r"http://127\.0\.0\.1:\d+/lab\?token=\w+", line)
            if result:
                break
        assert result, "JupyterLab ended before it told its address"
        # It goes on to log; a full pipe would stop it.
        drain = Thread(target=process.stderr.read)
        drain.start()
        yield Lab(folder, result[0].replace("/lab?", "/lab/tree?"), home)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:  # it waits for a killed kernel
            process.kill()
            process.wait(STOP_S)
        if result:
            drain.join(STOP_S)
        process.stderr.close()


@contextmanager
def headless_browser() -> Iterator[Browser]:
    is_root = os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox"] if is_root else [],
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open an empty page; every wait on it ends after two minutes."""
    page = browser.new_page(viewport=SIZE, **options)
    try:
        page.set_default_timeout(READY_MS)
        yield page
    finally:
        page.close()  # with all that it has to itself


@contextmanager
def opened(page: Page, path: Path, theme: str = "light") -> Iterator[Page]:
    """Show a page that was saved; it has no error, and asks for nothing else."""
    errors, asked = complaints(page), list[str]()
    resize(page, 1024, 1000)
    page.on("request", lambda request: asked.append(request.url.split("#")[0]))
    page.goto(f"{path.as_uri()}#{theme}")
    yield page
    assert errors == []
    assert asked == [path.as_uri()]


@contextmanager
def browser_page() -> Iterator[Page]:
    """Open an empty page in a browser of its own."""
    with headless_browser() as browser, page_of(browser) as page:
        yield page


def open_notebook(page: Page, lab: Lab, name: str) -> None:
    """Show a notebook, and return when its kernel is ready."""
    path = (lab.folder / name).relative_to(lab.home.parent)
    if page.url == "about:blank":
        page.goto(lab.address.replace("?", f"/{name}?"))
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        command(page, "application:toggle-left-area")
    else:  # JupyterLab
        command(page, "docmanager:open", path=str(path))
    page.wait_for_function(IS_SHOWN, arg=str(path))
    page.wait_for_function(KERNEL_IS_IDLE)


def close_all(page: Page) -> None:
    """Close what is open in JupyterLab, unasked; the theme is as at first."""
    # Figures stay, and each change of their size would be a message to no kernel.
    page.evaluate("() => window.Bokeh?.documents.map(it => it._callbacks.clear())")
    page.evaluate("() => [...jupyterapp.shell.widgets('main')].map(it => it.dispose())")
    if page.locator("body[data-jp-theme-light=false]").count():
        change_theme(page, "JupyterLab Light")


def load_again(page: Page) -> None:
    """Load the page again, as F5 does, and return when the notebook is there."""
    page.reload()
    page.wait_for_selector(".jp-Notebook .jp-Cell")


@contextmanager
def hidden(page: Page) -> Iterator[None]:
    """Let a page learn that it is behind another one; a browser of tests hides none."""
    page.evaluate(HIDE)
    try:
        yield
    finally:
        page.evaluate(SHOW)


@contextmanager
def frozen(page: Page) -> Iterator[None]:
    """Stop the process of a page, as on a laptop that is asleep."""
    browser = page.context.browser
    assert browser is not None
    devtools = browser.new_browser_cdp_session()
    result = devtools.send("SystemInfo.getProcessInfo")["processInfo"]
    pages = [row["id"] for row in result if row["type"] == "renderer"]
    assert pages
    for pid in pages:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pages:
            os.kill(pid, signal.SIGCONT)
        devtools.detach()


def printed_by_kernel(page: Page, line: str) -> str:
    """Return what a line of Python prints in the kernel of the notebook."""
    result: str = page.evaluate(PRINTED, line)
    return result


def heard_by_kernel(page: Page) -> None:
    """Return when the kernel has dealt with what was pressed, and its answer is here.

    Messages to a kernel are dealt with in order, and so are those to a page.
    """
    assert printed_by_kernel(page, "print('heard')") == "heard\n"


def run_all(page: Page) -> None:
    """Begin to run all cells."""
    command(page, "notebook:run-all-cells")


def save(page: Page, path: Path) -> None:
    """Save the notebook, and return when its file has changed."""
    before = path.read_bytes()
    command(page, "docmanager:save")
    for _ in range(READY_MS // 100):
        if path.read_bytes() != before:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{path.name} was not saved")


def complaints(page: Page) -> list[str]:
    """Return a list that gets what goes wrong in the page from now on."""
    result: list[str] = []
    page.on("pageerror", lambda error: result.append(str(error)))
    page.on(
        "console",
        lambda said: result.append(said.text) if said.type == "error" else None,
    )
    return result


def change_theme(page: Page, name: str) -> None:
    command(page, "apputils:change-theme", theme=name)
    is_light = "true" if "Light" in name else "false"
    page.wait_for_selector(f"body[data-jp-theme-light={is_light}]", state="attached")


def command(page: Page, name: str, **arguments: str) -> None:
    """Execute a command of Lab; does not wait for its end, which has no deadline."""
    call = f"jupyterapp.commands.execute({json.dumps(name)}, {json.dumps(arguments)})"
    page.evaluate(f"() => {{ {call}; }}")


def resize(page: Page, width: int, height: int = SIZE["height"]) -> None:
    page.set_viewport_size({"width": width, "height": height})


def screenshot(what: Locator, name: str) -> None:
    """Take a picture for whoever wants to look, which costs half a second of a core."""
    if "PSRING_SCREENS" in os.environ:
        SCREENS.mkdir(parents=True, exist_ok=True)
        what.screenshot(path=SCREENS / f"{name}.png")
