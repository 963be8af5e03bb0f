"""Judge the notebooks of a class: `python -m kit grade FOLDER`.

A submission is a lesson or a notebook of puzzles under any name: its cells have the ids
of those that were shipped. An exercise is a shipped cell with a solution below it,

    answer = ...
    checks.ring_bytes(answer, n=16, size=size)

and is judged by that check. All names are as they were shipped, but `answer` is what
the learner's cell of this id makes of it. Nothing else is run, so no cluster starts.
The learner's code runs in bubblewrap: without a network, with all files read-only and
those of the user and of other learners out of sight, with limits of time and memory. A
program that sets out to deceive the judge can: it runs in one process with the check.
It can only get its own submission a wrong verdict, or none.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import itertools
import json
import os
import resource
import shutil
import subprocess
import symtable
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from kit.message_fields import row_of, text, whole
from kit.regular_file import read_regular, replace_regular

LIMIT_S: Final = 120.0
_MOST_BYTES: Final = 2 << 30  # of memory, for each process
_LARGEST_NOTEBOOK: Final = 8 << 20
_MOST_WORDS: Final = 2000
_MOST_WRITTEN: Final = 16 << 20  # to each file; what is in memory is in /tmp
_VERDICT: Final = row_of(text(1000), whole(0, 1), text(_MOST_WORDS))
_AWAITS: Final = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_CHILD: Final = "from kit.demo.grading import judge_one; judge_one()"
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")

Notebook = dict[str, Any]


@dataclass(frozen=True)
class Grade:
    """What an exercise of a submission is worth.

    Attributes
    ----------
    submission : str
        The file, below the folder of all submissions.
    lesson, exercise : str
        The lesson, and the cell with the name of its check or puzzle.
    points : int
        1 if it is right, else 0.
    words : str
        What the check says, for the learner.
    """

    submission: str
    lesson: str
    exercise: str
    points: int
    words: str


def grade(folder: Path, lessons: Path, limit_s: float = LIMIT_S) -> Iterator[Grade]:
    """Judge all notebooks below a folder, one after the other.

    Parameters
    ----------
    folder : Path
        Where the submissions are, in folders of any depth.
    lessons : Path
        The folder of the lessons as they were shipped, with `checks.py`.
    limit_s : float, default 120
        How long the exercises of one notebook may take; a puzzle takes about a second.

    Yields
    ------
    Grade
        One for each exercise; one for a file that cannot be judged, which says why.

    Raises
    ------
    NotFoundError
        There are no notebooks, or no lessons.
    FailedPreconditionError
        Bubblewrap is missing, and no learner's program runs without it.
    """
    shipped = {
        path.stem: _read(path)
        for path in sorted(lessons.rglob("*.ipynb"))
        if not any(part.startswith(".") for part in path.parts)
    }
    if not shipped or not (lessons / "checks.py").is_file():
        raise NotFoundError(f"{lessons} has no lessons; --lessons says where they are.")
    paths = sorted(path for path in folder.rglob("*.ipynb") if path.is_file())
    if not paths:
        raise NotFoundError(f"{folder} has no notebooks; give the folder of them.")
    sandbox = _sandbox(folder, lessons)
    for path in paths:
        name = str(path.relative_to(folder))
        try:
            submitted = _read(path)
        except (ValueError, RecursionError, OSError, InvalidArgumentError) as error:
            yield Grade(
                name, "", "", 0, f"Not judged: this is not a notebook: {error}."
            )
            continue
        lesson = max(
            shipped, key=lambda stem: len(_ids(shipped[stem]) & _ids(submitted))
        )
        exercises = list(_exercises(shipped[lesson]))
        if not _ids(submitted) & {each.cell for each in exercises}:
            yield Grade(name, "", "", 0, "Not judged: it has no exercises of ours.")
            continue
        task = {"shipped": shipped[lesson], "submitted": submitted}
        verdicts = _sandboxed(json.dumps(task), sandbox, limit_s)
        late = 0, f"Not yet: your program did not end within {limit_s:g} s."
        for exercise in exercises:
            points, words = verdicts.get(exercise.name, late)
            yield Grade(name, lesson, exercise.name, points, words)


def write(grades: Sequence[Grade], path: Path) -> None:
    """Write grades to a file: `.json`, or else as CSV."""
    if path.suffix == ".json":
        plain = [asdict(each) for each in grades]
        replace_regular(path, [json.dumps(plain, indent=1).encode()])
        return
    sheet = io.StringIO(newline="")
    rows = csv.writer(sheet)
    rows.writerow([field.name for field in fields(Grade)])
    rows.writerows([_plain(value) for value in asdict(g).values()] for g in grades)
    # Names of files and texts of learners may hold what is no character.
    replace_regular(path, [sheet.getvalue().encode("utf-8", "backslashreplace")])


def _plain(value: object) -> object:
    """Keep a spreadsheet from reading a text of a learner's as a formula."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if is_formula else value


def _sandbox(submissions: Path, lessons: Path) -> list[str]:
    """Return the command that begins a sandbox, which was tried."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise FailedPreconditionError(
            "learners' programs run in bubblewrap only, and it is not installed; as "
            "root: apt-get install bubblewrap."
        )
    submitted = submissions.resolve()
    # In /run are sockets of services, which a read-only file system does not close.
    hidden = {Path("/tmp"), Path("/run"), Path.home(), submitted} - {Path("/")}
    needed = {Path(p) for p in (sys.prefix, sys.base_prefix)}
    needed |= {Path(kit.__file__).parents[1], lessons.resolve()}
    if submitted in needed:
        raise FailedPreconditionError(
            f"the programs that judge are in {submitted} too, so learners' programs "
            f"would see all submissions; put these into a folder of their own."
        )
    words = [bubblewrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in sorted(hidden):
        words += ["--tmpfs", str(path)]
    for path in sorted(needed):
        words += ["--ro-bind", str(path), str(path)]
    if not any(path.is_relative_to(submitted) for path in needed):
        words += ["--tmpfs", str(submitted)]  # it may lie in one of these
    words += ["--unshare-all", "--new-session", "--die-with-parent", "--clearenv"]
    words += ["--cap-drop", "ALL"]  # root could mount all again, to write
    for name in _ENVIRONMENT:
        if name in os.environ:
            words += ["--setenv", name, os.environ[name]]
    words += ["--setenv", "HOME", "/tmp", "--chdir", str(lessons.resolve()), "--"]
    tried = subprocess.run(
        [*words, sys.executable, "-c", ""], capture_output=True, text=True
    )
    if tried.returncode:
        raise FailedPreconditionError(
            f"the sandbox does not start: {tried.stderr.strip()}."
        )
    return words


def _sandboxed(
    task: str, sandbox: Sequence[str], limit_s: float
) -> dict[str, tuple[int, str]]:
    """Run the exercises of a submission; return points and words of each."""
    # The learner's program may write into it whatever it likes.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        python = [sys.executable, "-c", _CHILD, str(said.fileno()), str(limit_s)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*sandbox, *python],
                input=task,
                text=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[said.fileno()],
                timeout=limit_s,
            )
        said.seek(0)
        verdicts = {}
        for line in said:
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                exercise, points, sentence = _VERDICT.read(json.loads(line))
                verdicts[exercise] = points, sentence
        return verdicts


def judge_one() -> None:
    """Judge the submission on standard input; what the sandbox runs."""
    verdicts, limit_s = int(sys.argv[1]), float(sys.argv[2])
    task = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_WRITTEN, _MOST_WRITTEN))
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s)))
    sys.path.insert(0, str(Path.cwd()))  # for checks.py
    with open(verdicts, "w", encoding="utf-8", closefd=False) as file:
        for exercise in _exercises(task["shipped"]):
            points, words = _judged(exercise, task["submitted"])
            file.write(json.dumps([exercise.name, points, words[:_MOST_WORDS]]) + "\n")
            file.flush()
    os._exit(0)  # whatever the learner's program has left behind


def _judged(exercise: Exercise, submitted: Notebook) -> tuple[int, str]:
    cell = next((c for c in submitted["cells"] if c.get("id") == exercise.cell), None)
    if cell is None:
        return 0, f"Not yet: the cell {exercise.cell!r} is missing."
    try:
        # What was shipped comes first: a learner may have removed or emptied a cell.
        earlier = exercise.statements + _before(submitted, exercise.cell)
        own = _ran(earlier, exercise.answers, _statements([cell]))
        answers = {name: own[name] for name in exercise.answers}
        shipped = _ran(exercise.statements, _read_names(exercise.check))
        call = compile(ast.Expression(exercise.check), "<check>", "eval")
        verdict = eval(call, {**shipped, **answers})
    except KeyError as error:
        return 0, f"Not yet: the cell {exercise.cell!r} does not bind {error}."
    except SyntaxError as error:
        return 0, f"Not yet: line {error.lineno} of the cell is not Python."
    except BaseException as error:  # the learner's, whatever it is
        return 0, f"Not yet: your cell stopped with {type(error).__name__}: {error}"
    is_right = verdict.ok if hasattr(verdict, "ok") else verdict.is_right
    return int(is_right), verdict.words


def _ran(
    earlier: Sequence[ast.stmt], names: set[str], own: Sequence[ast.stmt] = ()
) -> dict[str, Any]:
    """Run statements, and of those before them what binds the names that they need."""
    wanted, chosen = names.union(*map(_read_names, own)), []
    for statement in reversed(earlier):
        if _bound(statement) & wanted and not _checks_in(statement):
            chosen.append(statement)
            wanted |= _read_names(statement)
    bound: dict[str, Any] = {"__name__": "__main__"}
    for statement in chosen[::-1]:
        with contextlib.suppress(Exception):  # whoever needs it says that it is missing
            _run(statement, bound)
    for statement in own:
        if _checks_in(statement):
            continue
        if isinstance(statement, ast.Expr):  # what is only shown may need a training
            with contextlib.suppress(Exception):
                _run(statement, bound)
        else:
            _run(statement, bound)
    return bound


def _run(statement: ast.stmt, names: dict[str, Any]) -> None:
    program = ast.Module([statement], type_ignores=[])
    exec(compile(program, "<your cell>", "exec"), names)


# -- notebooks ------------------------------------------------------------------------


@dataclass(frozen=True)
class Exercise:
    """A check of a cell, the names that it judges, and what was shipped before it."""

    cell: str
    check: ast.Call
    answers: set[str]
    statements: list[ast.stmt]

    @property
    def name(self) -> str:
        """The cell, and the puzzle or the names that are judged."""
        first = self.check.args[0]
        if isinstance(first, ast.Constant):
            return f"{self.cell}: {first.value!s}"
        return f"{self.cell}: {', '.join(sorted(self.answers))}"


def _exercises(notebook: Notebook) -> Iterator[Exercise]:
    """Yield the checks of a shipped notebook's exercises."""
    cells = notebook["cells"]
    for cell, following in itertools.pairwise(cells):
        if "solution" not in following.get("metadata", {}).get("tags", []):
            continue
        statements = _statements([cell])
        blank = [s for s in statements if any(_is_ellipsis(n) for n in ast.walk(s))]
        blank = blank or [s for s in statements if isinstance(s, ast.FunctionDef)]
        shipped = _before(notebook, cell["id"]) + [
            s for s in statements if s not in blank
        ]
        answers = {name for statement in blank for name in _bound(statement)}
        for check in (c for s in statements for c in _checks_in(s)):
            if judged := answers & _read_names(check):
                yield Exercise(cell["id"], check, judged, shipped)


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _checks_in(node: ast.AST) -> list[ast.Call]:
    """Return the calls of `checks` and `puzzles` in a statement."""
    return [
        call
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in ("checks", "puzzles")
        and call.args
    ]


def _read(path: Path) -> Notebook:
    """Return a notebook; raise an error if it is none, or is a link."""
    notebook = json.loads(read_regular(path, _LARGEST_NOTEBOOK))
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(
        isinstance(cell, dict) and isinstance(cell.get("source"), (str, list))
        for cell in cells
    ):
        raise ValueError("it has no cells")
    return {"cells": cells}


def _ids(notebook: Notebook) -> set[str]:
    return {str(cell["id"]) for cell in notebook["cells"] if "id" in cell}


def _before(notebook: Notebook, cell_id: str) -> list[ast.stmt]:
    """Return what stands before a cell, but for what awaits or is no Python."""
    statements = []
    for cell in notebook["cells"]:
        if cell.get("id") == cell_id:
            break
        with contextlib.suppress(SyntaxError, ValueError):
            statements += _statements([cell])
    return [
        s for s in statements if not any(isinstance(n, _AWAITS) for n in ast.walk(s))
    ]


def _statements(cells: Sequence[Notebook]) -> list[ast.stmt]:
    """Return what code cells say, without magics."""
    statements: list[ast.stmt] = []
    for cell in cells:
        if cell.get("cell_type") == "code":
            lines = "".join(cell["source"]).splitlines()
            source = "\n".join("" if line[:1] in ("%", "!") else line for line in lines)
            statements += ast.parse(source).body
    return statements


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, or changes, at the top level."""
    table = symtable.symtable(ast.unparse(statement), "<cell>", "exec")
    return {
        s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()
    }


def _read_names(node: ast.AST) -> set[str]:
    """Return the global names that code needs, within functions too."""
    tables = [symtable.symtable(ast.unparse(node), "<cell>", "exec")]
    names = {s.get_name() for s in tables[0].get_symbols() if s.is_referenced()}
    while tables:
        children = tables.pop().get_children()
        tables += children
        names |= {
            s.get_name() for t in children for s in t.get_symbols() if s.is_global()
        }
    return names
