"""Objects by which Kubernetes runs the tasks of a cluster as pods.

Pure. It contacts no Kubernetes cluster: `kubectl apply` does, with the printed objects.

    Secret         the credentials, mounted into each pod
    Service        headless: each pod has a name, NAME-worker-0.NAME
    NetworkPolicy  this cluster's pods and those labelled as its clients may call
    StatefulSet    tasks that only serve: task N is the pod with number N
    Job            workers that run a program: task N is the completion with index N
    StatefulSet    a notebook that attaches

A pod learns its task from TF_CONFIG, into which Kubernetes writes the pod's number.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kit.errors import InvalidArgumentError
from kit.settings import Settings
from kit.wire.handshake.credentials import Credentials

Plain = dict[str, Any]

CLIENT_LABEL: Final = "psring-client"
_SECRET_FOLDER, _SECRET_FILE = "/etc/psring", "credentials.json"
_SCRATCH = "/tmp"  # all that a pod may write to
_NUMBER = "PSRING_INDEX"
_SERVE = ("python3", "-m", "kit", "serve", "--bind", "0.0.0.0")
# It can be reached only through a forwarded port, which needs its user's rights.
_NOTEBOOK = (
    *("python3", "-m", "jupyterlab", "--no-browser"),
    *("--ip=127.0.0.1", "--port=8888", f"--ServerApp.root_dir={_SCRATCH}"),
)
_LIMITS: Final = {"cpu": "1", "memory": "2Gi"}
# Where Kubernetes writes the number of a pod, by what the pod belongs to.
_ORDINAL = "metadata.labels['apps.kubernetes.io/pod-index']"
_COMPLETION = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

# RFC 1123, but beginning with a letter: a Service is called by this name.
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|[MGTPE]|[KMGTPE]i)?", re.ASCII)
_RESOURCE = re.compile(r"[a-z]([-a-z0-9./]*[a-z0-9])?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IMAGE = re.compile(r"[^\s@]*[^\s@:/]:([\w][\w.-]{0,127})|\S+@sha256:[0-9a-f]{64}")
_LONGEST_LABEL = 63
# A StatefulSet's pods carry a label of its name, "-" and a hash of 10 characters.
_LONGEST_SET = 52
_MOST_TEXT = 100_000  # Linux, execve(2): one variable has 128 KiB at most


def manifest(
    name: str,
    image: str,
    ps: int = 1,
    worker: int = 4,
    *,
    program: Sequence[str] = (),
    notebook: bool | None = None,
    credentials: Credentials | None = None,
    secret: str = "",
    namespace: str = "",
    port: int = 2222,
    limits: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    start_deadline_s: float = 600.0,
    user: int = 1000,
) -> list[dict[str, Any]]:
    """Return the objects that make Kubernetes run a cluster, for `kubectl apply`.

    With a `program` the workers run that program to its end, as a Job. Without one the
    tasks serve until they are deleted, and a notebook attaches to them.

    Parameters
    ----------
    name : str
        The name of the cluster; its objects' names begin with it.
    image : str
        The image of all pods, with a tag other than "latest", or with a digest. It must
        have `python3` with the kit, the program, and for a notebook JupyterLab.
    ps, worker : int, default 1 and 4
        How many tasks there are of each job.
    program : sequence of str, optional
        The command of each worker. It makes its server by
        `kit.Server.from_environment(bind="0.0.0.0")`, and all call `kit.train` alike.
    notebook : bool, optional
        Whether to add a pod with JupyterLab. By default only without a program.
    credentials : Credentials, optional
        By default new ones. They are in the returned list: treat it as a secret.
    secret : str, optional
        The name of an existing Secret with a file "credentials.json", to be used
        instead of credentials in the list.
    namespace : str, optional
        The namespace of all objects; by default that of kubectl.
    port : int, default 2222
        The port of every task.
    limits : mapping of str to str, optional
        What each pod reserves and may use at most; by default a CPU and 2Gi of memory.
        A ps task gets the CPUs and the memory, but no devices.
    environment : mapping of str to str, optional
        More variables for each pod, such as settings.
    start_deadline_s : float, default 600
        Seconds that tasks wait for each other, because pods start at different times.
    user : int, default 1000
        The user and the group that the pods run as; not root.

    Returns
    -------
    list of dict
        Objects as plain JSON data, in the order in which they are needed. You may
        change them.

    Raises
    ------
    InvalidArgumentError
        Kubernetes would refuse one of the values, or its pods would not come up.

    Examples
    --------
    >>> objects = manifest("demo", "registry.example/digits:3", program=["train"])
    >>> [f"{item['kind']} {item['metadata']['name']}" for item in objects]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['Secret demo', 'Service demo', 'NetworkPolicy demo', 'StatefulSet demo-ps',
     'Job demo-worker']
    """
    counts = {"ps": ps, "worker": worker}
    has_notebook = not program if notebook is None else notebook
    _check_counts(counts, port, user, start_deadline_s)
    _check_names(name, counts, has_notebook, secret, namespace)
    _check_image(image)
    _check_command(program)
    limits = dict(_LIMITS if limits is None else limits)
    _check_limits(limits)
    variables = {
        "KIT_CREDENTIALS": f"{_SECRET_FOLDER}/{_SECRET_FILE}",
        "KIT_RUNTIME_DIR": f"{_SCRATCH}/psring",
        "KIT_START_DEADLINE_S": f"{start_deadline_s:g}",
        "HOME": _SCRATCH,
    }
    variables |= _checked_variables(environment or {})
    cluster = {
        job: [f"{name}-{job}-{index}.{name}:{port}" for index in range(counts[job])]
        for job in counts
        if counts[job]
    }
    objects = [] if secret else [_secret(name, credentials)]
    objects += [_service(name, port), _policy(name, port)]
    pod = _Pods(name, image, secret or name, user, port, variables)
    small = {key: limits[key] for key in limits if "/" not in key}
    if ps:
        objects.append(_stateful(pod.task("ps", cluster, small), ps))
    workers = pod.task("worker", cluster, limits, program)
    objects.append((_job if program else _stateful)(workers, worker))
    if has_notebook:
        objects.append(_stateful(pod.notebook(small), 1))
    for manifest_object in objects if namespace else ():
        manifest_object["metadata"]["namespace"] = namespace
    if warning := _settings_of(variables).warning:
        for manifest_object in objects:  # `kubectl describe` shows it
            manifest_object["metadata"]["annotations"] = {"psring/warning": warning}
    return objects


def _settings_of(variables: Mapping[str, str]) -> Settings:
    name = "KIT_INSECURE"
    chosen = {name: variables[name]} if name in variables else {}
    return Settings.from_environment(chosen)


class _Pods:
    """Makes the templates of the pods, which have most parts in common."""

    def __init__(
        self,
        name: str,
        image: str,
        secret: str,
        user: int,
        port: int,
        variables: Mapping[str, str],
    ) -> None:
        self._name, self._image, self._secret = name, image, secret
        self._user, self._port, self._variables = user, port, variables

    def task(
        self,
        job: str,
        cluster: Mapping[str, list[str]],
        limits: Mapping[str, str],
        program: Sequence[str] = (),
    ) -> Plain:
        """Return the template of a job's tasks, which serve or run a program."""
        task = {"type": job, "index": f"$({_NUMBER})"}
        config = json.dumps({"cluster": cluster, "task": task})
        if len(config) > _MOST_TEXT:
            raise InvalidArgumentError(
                f"the addresses of all tasks are {len(config)} characters, and a "
                f"variable holds {_MOST_TEXT}; take a shorter name or fewer tasks."
            )
        number = _COMPLETION if program else _ORDINAL
        # $(...) in a variable is replaced by one that is listed before it.
        own: list[Plain] = [
            {"name": _NUMBER, "valueFrom": {"fieldRef": {"fieldPath": number}}},
            {"name": "TF_CONFIG", "value": config},
        ]
        container = self._container(program or _SERVE, limits, own)
        container["ports"] = [{"name": "psring", "containerPort": self._port}]
        # A program may work for long before it has a server, so no probe may kill it.
        probes = _readiness if program else _probes
        container |= probes(self._port)
        return self._template(job, container)

    def notebook(self, limits: Mapping[str, str]) -> Plain:
        """Return the template of a notebook."""
        container = self._container(_NOTEBOOK, limits, [])
        return self._template("notebook", container | _readiness(8888))

    def _container(
        self, command: Sequence[str], limits: Mapping[str, str], own: list[Plain]
    ) -> Plain:
        variables = [
            {"name": key, "value": text} for key, text in self._variables.items()
        ]
        return {
            "name": "psring",
            "image": self._image,
            "command": list(command),
            "env": own + variables,
            "resources": {"requests": dict(limits), "limits": dict(limits)},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "credentials", "mountPath": _SECRET_FOLDER, "readOnly": True},
                {"name": "scratch", "mountPath": _SCRATCH},
            ],
        }

    def _template(self, component: str, container: Plain) -> Plain:
        return {
            "metadata": {"labels": _labels(self._name, component)},
            "spec": {
                "subdomain": self._name,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,  # variables for every Service there is
                # Signals without a handler do not end process 1 of a container. So
                # process 1 is Kubernetes's own.
                "shareProcessNamespace": True,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": self._user,
                    "runAsGroup": self._user,
                    "fsGroup": self._user,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [
                    {
                        "name": "credentials",
                        "secret": {"secretName": self._secret, "defaultMode": 0o400},
                    },
                    {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                ],
            },
        }


def as_list(objects: Sequence[Plain]) -> str:
    """Return all objects as one JSON text for `kubectl apply -f -`.

    Parameters
    ----------
    objects : sequence of dict
        As `manifest` returns them.

    Returns
    -------
    str
        A List of Kubernetes.
    """
    combined = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(combined, indent=2)


def _labels(name: str, component: str = "") -> Plain:
    labels = {"app.kubernetes.io/name": "psring", "app.kubernetes.io/instance": name}
    return labels | ({"app.kubernetes.io/component": component} if component else {})


def _object(version: str, kind: str, name: str, labels: Plain, **fields: Any) -> Plain:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _secret(name: str, credentials: Credentials | None) -> Plain:
    complete = (credentials or Credentials.new()).with_certificate()
    data = base64.b64encode(json.dumps(complete.to_plain()).encode()).decode()
    # If it were changed, running pods would refuse new ones, which mount the new one.
    fields: Plain = {"type": "Opaque", "immutable": True, "data": {_SECRET_FILE: data}}
    return _object("v1", "Secret", name, _labels(name), **fields)


def _service(name: str, port: int) -> Plain:
    spec = {
        "clusterIP": "None",
        # Tasks look for each other before any of them is ready.
        "publishNotReadyAddresses": True,
        "selector": _labels(name),
        "ports": [{"name": "psring", "port": port}],
    }
    return _object("v1", "Service", name, _labels(name), spec=spec)


def _policy(name: str, port: int) -> Plain:
    callers = [{"matchLabels": _labels(name)}, {"matchLabels": {CLIENT_LABEL: name}}]
    spec = {
        "podSelector": {"matchLabels": _labels(name)},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [{"podSelector": caller} for caller in callers],
                "ports": [{"protocol": "TCP", "port": port}],
            }
        ],
    }
    version = "networking.k8s.io/v1"
    return _object(version, "NetworkPolicy", name, _labels(name), spec=spec)


def _stateful(template: Plain, replicas: int) -> Plain:
    labels = template["metadata"]["labels"]
    spec = {
        "serviceName": template["spec"].pop("subdomain"),
        "replicas": replicas,
        "podManagementPolicy": "Parallel",  # else each waits for the one before it
        "selector": {"matchLabels": labels},
        "template": template,
    }
    return _object("apps/v1", "StatefulSet", _set_name(labels), labels, spec=spec)


def _job(template: Plain, completions: int) -> Plain:
    labels = template["metadata"]["labels"]
    template["spec"]["restartPolicy"] = "Never"
    spec = {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": completions,
        "backoffLimit": 0,  # a worker that begins anew is not in the training
        "template": template,
    }
    return _object("batch/v1", "Job", _set_name(labels), labels, spec=spec)


def _set_name(labels: Plain) -> str:
    name, component = "app.kubernetes.io/instance", "app.kubernetes.io/component"
    return f"{labels[name]}-{labels[component]}"


def _is_listening(port: int) -> Plain:
    """Return a probe that opens no connection, which a server would log as refused.

    A line of /proc/net/tcp has the address in hex, and 0A for a listening port.
    """
    code = (
        "import glob, sys; sys.exit(not any("
        f"line.split()[1].endswith(':{port:04X}') and line.split()[3] == '0A' "
        "for name in glob.glob('/proc/net/tcp*') for line in open(name)))"
    )
    command = ["python3", "-S", "-c", code]
    return {"exec": {"command": command}, "timeoutSeconds": 10}


def _readiness(port: int) -> Plain:
    return {"readinessProbe": _is_listening(port) | {"periodSeconds": 10}}


def _probes(port: int) -> Plain:
    start = {"periodSeconds": 2, "failureThreshold": 150}
    return _readiness(port) | {
        "startupProbe": _is_listening(port) | start,
        "livenessProbe": _is_listening(port) | {"periodSeconds": 30},
    }


# -- values that Kubernetes would refuse, or with which pods would not start -----------


def _check_counts(counts: Mapping[str, int], port: int, user: int, wait: float) -> None:
    limits = {
        "ps": (counts["ps"], 0, 10_000),
        "worker": (counts["worker"], 1, 10_000),
        "port": (port, 1024, 65_535),  # those below are root's
        "user": (user, 1, 2**31 - 1),
    }
    for what, (value, least, most) in limits.items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not least <= value <= most:
            raise InvalidArgumentError(
                f"{what} is {value!r}; give a whole number from {least} to {most}."
            )
    is_time = isinstance(wait, int | float) and not isinstance(wait, bool)
    if not is_time or not 0 < wait <= 86_400:
        raise InvalidArgumentError(
            f"start_deadline_s is {wait!r}; give seconds, a day at most."
        )


def _check_names(
    name: str, counts: Mapping[str, int], notebook: bool, secret: str, namespace: str
) -> None:
    for what, text in {"name": name, "namespace": namespace or "ok"}.items():
        _check_text(
            text,
            _LABEL,
            what,
            f"at most {_LONGEST_LABEL} of a-z, 0-9 and "
            f"'-', beginning with a letter and not ending with '-'",
        )
        if len(text) > _LONGEST_LABEL:
            raise InvalidArgumentError(
                f"{what} is {text!r}, {len(text)} characters; Kubernetes takes "
                f"{_LONGEST_LABEL}."
            )
    if secret:
        _check_text(secret, _SUBDOMAIN, "secret", "the name of a Secret")
    jobs = [job for job in counts if counts[job]] + ["notebook"] * notebook
    for job in jobs:
        pod = f"{name}-{job}-{counts.get(job, 1) - 1}"
        if len(f"{name}-{job}") > _LONGEST_SET or len(pod) > _LONGEST_LABEL:
            most = _LONGEST_SET - max(len(f"-{item}") for item in jobs)
            raise InvalidArgumentError(
                f"name is {name!r}: its pods would be called {pod!r}, and Kubernetes "
                f"has no room for that with what it adds; give {most} characters at "
                f"most."
            )


def _check_image(image: str) -> None:
    match = _IMAGE.fullmatch(image) if isinstance(image, str) else None
    if match is None or match[1] == "latest":
        raise InvalidArgumentError(
            f"image is {image!r}; give one with a tag, such as "
            f"'registry.example/digits:3', or with a digest. Without one, and with "
            f"'latest', two pods of a cluster may run different programs."
        )


def _check_command(program: Sequence[str]) -> None:
    is_text = isinstance(program, str | bytes)
    if is_text or not all(isinstance(word, str) for word in program):
        raise InvalidArgumentError(
            f"program is {program!r}; give its words as a list, such as "
            f"['python3', '/app/train.py']."
        )


def _check_limits(limits: Mapping[str, str]) -> None:
    for key, quantity in limits.items():
        _check_text(key, _RESOURCE, "a limit", "a resource such as 'memory'")
        _check_text(
            quantity, _QUANTITY, f"the limit {key}", "such as '2', '500m', '4Gi'"
        )


def _checked_variables(environment: Mapping[str, str]) -> dict[str, str]:
    for key, value in environment.items():
        _check_text(key, _VARIABLE, "a variable", "letters, digits and '_'")
        if key in (_NUMBER, "TF_CONFIG", "KIT_CREDENTIALS"):
            raise InvalidArgumentError(
                f"the variable {key} says which task a pod is, or where its "
                f"credentials are; leave it out of the environment."
            )
        if not isinstance(value, str) or "\0" in value:
            raise InvalidArgumentError(
                f"the variable {key} is {value!r}; give a str without NUL."
            )
    return dict(environment)


def _check_text(value: object, form: re.Pattern[str], what: str, expected: str) -> None:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise InvalidArgumentError(f"{what} is {value!r}; give {expected}.")
