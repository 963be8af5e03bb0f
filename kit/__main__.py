"""`psring demo`, or `python -m kit demo`: the commands for a shell.

demo              train on a small cluster of this machine, and show what it did
serve             be one task of a cluster until SIGTERM
manifest          print the objects that make Kubernetes run a cluster
credentials new   make the secrets that the tasks of a cluster share
tf1-check         list what a TensorFlow 1.x program uses and kit.tf1 does not offer
lessons reset     put lessons back as they were shipped, and keep yours beside them
lessons copies    write copies for students, a key, and slides
grade             judge the exercises and puzzles in the notebooks of a class
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kit.demo import check_installed
from kit.demo.lessons import reset
from kit.errors import AlreadyExistsError, InvalidArgumentError, KitError
from kit.kubernetes import as_list, manifest
from kit.server.server import Server
from kit.wire.handshake.credentials import Credentials

_INTERRUPTED = 130  # the exit code in a shell of a program that SIGINT has ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    chosen = vars(_parser().parse_args(arguments))
    command: Callable[..., int] = chosen.pop("command")
    try:
        return command(**chosen)
    except KitError as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the cluster was stopped.", file=sys.stderr)
        return _INTERRUPTED


def _demo(**chosen: Any) -> int:
    if chosen["text_steps"] is None:
        chosen["text_steps"] = max(4, chosen["steps"] // 25)
    check_installed()
    from kit.demo.show import (  # the parser answers without loading it
        DemoOptions,
        show,
    )

    return show(DemoOptions(**chosen))


def _new_credentials(file: Path) -> int:
    if file.exists() or file.is_symlink():
        raise AlreadyExistsError(
            f"{file} is there already, and tasks may be using what it holds; give "
            f"another name, or remove it first."
        )
    try:
        Credentials.new().save(file)
    except OSError as exc:
        raise InvalidArgumentError(f"cannot write {file}: {exc.strerror}.") from exc
    print(f"{file} holds the credentials of a cluster; give it to all its tasks.")
    return 0


def _reset_lessons(names: Sequence[str], folder: Path) -> int:
    print(*reset(names, folder), sep="\n")
    return 0


def _copy_lessons(to: Path, folder: Path) -> int:
    from kit.demo.lessons import write_copies

    print(*write_copies(folder, to), sep="\n")
    return 0


def _grade(
    folder: Path, lessons: Path, to: Sequence[Path], limit_s: float, required: bool
) -> int:
    from kit.demo.grading import grade, write  # the parser answers without loading it

    grades = []
    for each in grade(folder, lessons, limit_s):
        grades.append(each)
        line = f"{each.submission}  {each.exercise}  {each.points}  {each.words}"
        # A learner's text could move the cursor, or hide what stands above it.
        print("".join(c if c.isprintable() or c == "\n" else "?" for c in line))
    for path in to:
        write(grades, path)
    points = sum(each.points for each in grades)
    print(f"{points} of {len(grades)} exercises are right.")
    return 0 if points == len(grades) or not required else 1


def _check(files: Sequence[Path]) -> int:
    from kit.tf1.check import report  # the parser answers without loading it

    lines, is_offered = report(files)
    print(*lines, sep="\n")
    return 0 if is_offered else 1


def _serve(
    cluster: str | None,
    job: str | None,
    index: int | None,
    credentials: Path | None,
    bind: str | None,
    ps: int,
    port: int,
) -> int:
    """Serve until a signal says to stop.

    The signals are blocked from the beginning, also in all threads that start
    meanwhile. So an early one is not lost, and none interrupts the stop.
    """
    ends = {signal.SIGTERM, signal.SIGINT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        options: dict[str, Any] = {"bind": bind}
        if credentials is not None:
            options["credentials"] = Credentials.load(credentials)
        with _server(cluster, job, index, ps, port, options) as server:
            warning = server.settings.warning
            warned = f"; {warning}" if warning else ""
            print(f"{server.task.short} serves at {server.address}{warned}", flush=True)
            came = signal.sigwait(ends)
        print(f"{server.task.short} has stopped", flush=True)
        return 0 if came == signal.SIGTERM else _INTERRUPTED
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _server(
    cluster: str | None,
    job: str | None,
    index: int | None,
    ps: int,
    port: int,
    options: dict[str, Any],
) -> Server:
    if cluster is not None:
        try:
            return Server(_jobs(cluster), job, index, **options)
        except (TypeError, ValueError) as exc:
            raise InvalidArgumentError(f"--cluster {cluster}: {exc}") from exc
    if job is not None or index is not None:
        raise InvalidArgumentError(
            "--job and --index choose a task of --cluster; give that too, or leave "
            "them out, and the environment says which task this is."
        )
    return Server.from_environment(ps=ps, port=port, **options)


def _manifest(credentials: Path | None, **options: Any) -> int:
    for field in ("limits", "environment"):
        # As with `docker run --env`, the last of several holds.
        pairs = options.pop(field) or None
        options[field] = pairs and dict(_pair(pair) for pair in pairs)
    if credentials is not None:
        options["credentials"] = Credentials.load(credentials)
    objects = manifest(**options)
    for key, warning in objects[0]["metadata"].get("annotations", {}).items():
        print(f"{key}: {warning}", file=sys.stderr)
    print(as_list(objects))
    return 0


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgumentError(f"{text!r} has no '='; write NAME=VALUE.")
    return key, value


def _jobs(text: str) -> dict[str, Any]:
    """Return the jobs of a cluster; in JSON, indices of a sparse job are texts."""
    jobs = json.loads(text)
    if not isinstance(jobs, dict):
        raise ValueError('give jobs with their addresses, as {"worker": ["a:2222"]}.')
    return {
        job: {int(key) if key.isdecimal() else key: tasks[key] for key in tasks}
        if isinstance(tasks, dict)
        else tasks
        for job, tasks in jobs.items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="psring", description="Distributed training on one machine or several."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_serve(commands)
    _add_manifest(commands)
    _add_credentials(commands)
    _add_lessons(commands)
    _add_grade(commands)
    _add_check(commands)
    return parser


def _number(parser: Any, flag: str, default: int, what: str) -> None:
    parser.add_argument(flag, type=int, default=default, metavar="N", help=what)


def _path(
    parser: Any, flag: str, metavar: str, what: str, default: Path | None = None
) -> None:
    parser.add_argument(flag, type=Path, default=default, metavar=metavar, help=what)


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="train two models on a small cluster, switching topology while they run",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.set_defaults(command=_demo)
    _number(demo, "--ps", 1, "ps tasks")
    _number(demo, "--worker", 3, "worker tasks")
    _number(demo, "--steps", 600, "steps for the digits")
    demo.add_argument(
        "--text-steps",
        type=int,
        metavar="N",
        help="steps for the text; one for each 25 of the digits if not given",
    )
    demo.add_argument(
        "--link", default="1gbit", metavar="SPEED", help="links of the text model"
    )
    _number(demo, "--seed", 0, "for all dice")
    _path(demo, "--out", "DIR", "for files", Path("build/demo"))
    _path(demo, "--json", "FILE", "write the figures")


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="be one task of a cluster until SIGTERM comes",
        description="Without --cluster, TF_CONFIG or the variables of Slurm's srun "
        "say which task this is.",
    )
    serve.set_defaults(command=_serve)
    serve.add_argument(
        "--cluster", metavar="JSON", help='such as \'{"ps": ["a:2222"], ...}\''
    )
    serve.add_argument("--job", metavar="NAME", help="the job of this task")
    serve.add_argument("--index", type=int, metavar="N", help="its index in the job")
    _path(
        serve,
        "--credentials",
        "FILE",
        "made by 'credentials new'; by default those of this user",
    )
    serve.add_argument(
        "--bind",
        metavar="HOST[:PORT]",
        help="where to listen, if not where others dial",
    )
    _number(serve, "--ps", 1, "Slurm: number of ps tasks (1)")
    _number(
        serve, "--port", 2222, "Slurm: the port of the first task of each node (2222)"
    )


def _add_manifest(commands: Any) -> None:
    made = commands.add_parser(
        "manifest",
        help="print the objects that make Kubernetes run a cluster",
        description="Prints a List of JSON for 'kubectl apply -f -'. It holds the "
        "credentials, unless --secret names those that are there.",
    )
    made.set_defaults(command=_manifest)
    made.add_argument("name", metavar="NAME", help="what the cluster is called")
    made.add_argument("image", metavar="IMAGE", help="of all pods, with a tag")
    made.add_argument(
        "--program",
        nargs=argparse.REMAINDER,
        default=(),
        metavar="WORD",
        help="what each worker runs, all that follows; else the tasks serve a notebook",
    )
    _number(made, "--ps", 1, "ps tasks (1)")
    _number(made, "--worker", 4, "workers (4)")
    made.add_argument(
        "--notebook",
        action=argparse.BooleanOptionalAction,
        help="add a pod with JupyterLab (default: only without --program)",
    )
    whose = made.add_mutually_exclusive_group()
    _path(whose, "--credentials", "FILE", "by default new ones")
    whose.add_argument(
        "--secret", default="", metavar="NAME", help="a Secret with credentials.json"
    )
    made.add_argument("--namespace", default="", metavar="NAME", help="where it runs")
    _number(made, "--port", 2222, "of every task (2222)")
    made.add_argument(
        "--limit",
        action="append",
        dest="limits",
        metavar="WHAT=N",
        help="what each pod may use (cpu=1 and memory=2Gi)",
    )
    made.add_argument(
        "--env",
        action="append",
        dest="environment",
        metavar="NAME=VALUE",
        help="a variable for each pod",
    )


def _add_credentials(commands: Any) -> None:
    credentials = commands.add_parser(
        "credentials", help="make the secrets that the tasks of a cluster share"
    )
    actions = credentials.add_subparsers(required=True, metavar="ACTION")
    new = actions.add_parser("new", help="write new ones to a file only you can read")
    new.set_defaults(command=_new_credentials)
    _path(new, "file", "FILE", "in a folder of mode 0700")


def _add_lessons(commands: Any) -> None:
    lessons = commands.add_parser("lessons", help="look after the lessons of a clone")
    actions = lessons.add_subparsers(required=True, metavar="ACTION")
    back = actions.add_parser(
        "reset",
        help="put lessons back as they were shipped; what you made of them is kept "
        "beside them",
    )
    back.set_defaults(command=_reset_lessons)
    back.add_argument(
        "names",
        nargs="*",
        metavar="LESSON",
        help="how it or its folder begins, as 03 or puzzles; else all",
    )
    copies = actions.add_parser(
        "copies",
        help="write copies without solutions, with them unfolded, and as slides",
    )
    copies.set_defaults(command=_copy_lessons)
    _path(copies, "to", "FOLDER", "of the copies")
    for action in (back, copies):
        _path(
            action, "--folder", "DIR", "of the lessons (notebooks)", Path("notebooks")
        )


def _add_grade(commands: Any) -> None:
    grade = commands.add_parser(
        "grade",
        help="judge the exercises and puzzles in the notebooks of a class",
        description="Runs each notebook's answers in bubblewrap: no network, read-only "
        "files, limits of time and memory. The exit code is 0 if all could be judged.",
    )
    grade.set_defaults(command=_grade)
    _path(grade, "folder", "FOLDER", "of the notebooks")
    _path(
        grade, "--lessons", "DIR", "as they were shipped (notebooks)", Path("notebooks")
    )
    grade.add_argument(
        "--to",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write the grades there too: .csv or .json; may be given twice",
    )
    grade.add_argument(
        "--limit-s",
        type=float,
        default=120,
        metavar="N",
        help="for the exercises of one notebook (120)",
    )
    grade.add_argument(
        "--required", action="store_true", help="exit with 1 unless all are right"
    )


def _add_check(commands: Any) -> None:
    check = commands.add_parser(
        "tf1-check",
        help="list what a TensorFlow 1.x program uses and kit.tf1 does not offer",
        description="Reads programs without running them. The exit code is 0 if all "
        "that they use is offered, 1 if not, 2 if a file cannot be read.",
    )
    check.set_defaults(command=_check)
    check.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a program, or a folder"
    )


if __name__ == "__main__":
    sys.exit(main())
