"""What Kubernetes would make of a manifest, as processes of this machine.

Of the objects nothing is left out but what needs a kernel of its own for each pod: the
command, the variables with $(...) filled in, the folders that are mounted, user and
group. A pod's name in the cluster becomes a port of the loopback interface.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.server.ports import free_ports

ROOT = Path(__file__).parents[2]
_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
# As another user, who may read what is root's: the interpreter may be in its home.
_READ = "+dac_read_search"


def _as_user(user: int) -> list[str]:
    return [
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"),
        *(f"--inh-caps={_READ}", f"--ambient-caps={_READ}", "--"),
    ]


@dataclass
class Pod:
    """One pod as a process: what it is called, and how it is run."""

    name: str
    command: list[str]
    environment: dict[str, str]
    probe: list[str]
    process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        return self.process

    def is_ready(self) -> bool:
        return subprocess.run(self.probe).returncode == 0


class Kubelet:
    """Makes the pods of a manifest in a folder."""

    def __init__(self, objects: list[dict[str, Any]], folder: Path) -> None:
        self._objects, self._folder = objects, folder
        self._ports: dict[str, int] = {}

    def pods(self) -> list[Pod]:
        return [
            self._pod(item, number)
            for item in self._objects
            if item["kind"] in ("StatefulSet", "Job")
            for number in range(
                item["spec"].get("replicas", item["spec"].get("completions"))
            )
        ]

    def local(self, text: str) -> str:
        """Return a text with addresses of this machine instead of the pods' names."""

        def port(result: re.Match[str]) -> str:
            if result[0] not in self._ports:
                (self._ports[result[0]],) = free_ports(1)
            return f"127.0.0.1:{self._ports[result[0]]}"

        return re.sub(r"[a-z][-a-z0-9]*-\d+\.[a-z][-a-z0-9]*:\d+", port, text)

    def _pod(self, owner: dict[str, Any], number: int) -> Pod:
        name = f"{owner['metadata']['name']}-{number}"
        spec = owner["spec"]["template"]["spec"]
        user = spec["securityContext"]["runAsUser"]
        is_other = os.geteuid() == 0 and shutil.which("setpriv") is not None
        mounts = self._mounts(name, spec, user if is_other else None)
        (container,) = spec["containers"]
        variables = _variables(container["env"], owner["kind"], number)
        # The container's image has these, and its loader a cache of its own.
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for key, value in variables.items():
            environment[key] = _mounted(self.local(value), mounts)
        address = f"{name}.{spec.get('subdomain') or owner['spec']['serviceName']}:"
        port = container.get("ports", [{"containerPort": 0}])[0]["containerPort"]
        inner = f":{port:04X}"
        outer = self.local(f"{address}{port}").rpartition(":")[2]
        before = _as_user(user) if is_other else []
        probe = container["readinessProbe"]["exec"]["command"]
        return Pod(
            name,
            [*before, *(_mounted(word, mounts) for word in container["command"])],
            environment,
            [word.replace(inner, f":{int(outer):04X}") for word in probe],
        )

    def _mounts(
        self, name: str, spec: dict[str, Any], user: int | None
    ) -> dict[str, Path]:
        """Make a pod's volumes; return where each mount path is now."""
        kinds = {row["name"]: row for row in spec["volumes"]}
        mounts = {}
        for mount in spec["containers"][0]["volumeMounts"]:
            folder = self._folder / name / mount["name"]
            folder.mkdir(parents=True)
            mounts[mount["mountPath"]] = folder
            if "secret" in (volume := kinds[mount["name"]]):
                mode = volume["secret"]["defaultMode"]
                self._mount_secret(folder, mode, user)
            elif user is not None:
                os.chown(folder, 0, user)
                folder.chmod(0o2777)
        return mounts

    def _mount_secret(self, folder: Path, mode: int, user: int | None) -> None:
        """Write the files as Kubernetes does: behind two links, for the group."""
        (secret,) = [item for item in self._objects if item["kind"] == "Secret"]
        inner = folder / "..2026_01_01_00_00_00.1"
        inner.mkdir(mode=0o755)
        (folder / "..data").symlink_to(inner.name)
        for file, data in secret["data"].items():
            (inner / file).write_bytes(base64.b64decode(data))
            (inner / file).chmod(mode)
            (folder / file).symlink_to(f"..data/{file}")
        if user is not None:
            for path in inner.iterdir():
                os.chown(path, 0, user)
                path.chmod(mode | 0o040)
            os.chown(inner, 0, user)
            inner.chmod(0o2755)
            folder.chmod(0o3777)


@contextmanager
def running(pods: list[Pod]) -> Iterator[None]:
    """Have all pods run, and none of them at the end."""
    with ExitStack() as stack:
        for pod in pods:
            stack.callback(_end, pod.start())
        yield


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _variables(inputs: list[dict[str, Any]], kind: str, number: int) -> dict[str, str]:
    """Return what a container's variables are; $(...) is one that stands before."""
    folder = {
        "StatefulSet": "metadata.labels['apps.kubernetes.io/pod-index']",
        "Job": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
    }[kind]
    result: dict[str, str] = {}
    for text in inputs:
        if "valueFrom" in text:
            assert text["valueFrom"] == {"fieldRef": {"fieldPath": folder}}
            result[text["name"]] = str(number)
        else:
            result[text["name"]] = _REFERENCE.sub(
                lambda match: result.get(match[1], match[0]), text["value"]
            )
    return result


def _mounted(text: str, mounts: dict[str, Path]) -> str:
    paths = "|".join(map(re.escape, mounts))
    return re.sub(rf"(?:{paths})(?=/|$)", lambda result: str(mounts[result[0]]), text)


def config_of(pod: Pod) -> Any:
    return json.loads(pod.environment["TF_CONFIG"])
