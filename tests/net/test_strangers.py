"""Who is turned away at the door of a task that another machine can reach."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import kit
from kit.errors import AuthenticationFailed, KitError, PermissionDeniedError
from kit.server.directory import Directory
from kit.settings import Settings
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.listening.address import parse_address
from tests.cases import for_each
from tests.net.bench import CLIENT, NetCluster, net_cluster

TARGET = Task("worker", 0)


@pytest.mark.net
@pytest.mark.slow
def test_strangers_on_the_network_get_no_link(tmp_path: Path) -> None:
    with net_cluster(tmp_path, {"worker:0": "b"}, settings=Settings()) as cluster:
        own = cluster.directory
        stolen = replace(
            Credentials.new(),
            cluster_id=own.credentials.cluster_id,
            key=own.credentials.key,
        )
        insecure = own.settings.replace(insecure=True)

        knock(cluster, own)  # who belongs here is let in: the others could be
        # Another cluster's certificate, even with the right key.
        with pytest.raises(AuthenticationFailed):
            knock(cluster, replace(own, credentials=stolen))
        with pytest.raises(KitError):
            knock(cluster, replace(own, settings=insecure))
        bare = replace(own.credentials, certificate_pem=b"", private_key_pem=b"")
        with pytest.raises(PermissionDeniedError):
            knock(cluster, replace(own, credentials=bare))

        knock(cluster, own)
        refusals = cluster.log.read_text().count("refused a connection")
        assert refusals == 2  # the last one did not even dial


def knock(cluster: NetCluster, directory: Directory) -> None:
    """Dial from the other machine and put a question over the link."""
    address = parse_address(directory.addresses[TARGET])
    assert str(address).startswith("10.77.0.2:")
    dial = partial(directory.dial, TARGET, CLIENT, Role.OBSERVER)
    with cluster.wire.call("a", dial) as link:
        link.send_message({"op": "nothing"}, deadline_s=5)
        reply, _ = link.recv_message(deadline_s=5)
    assert "does not answer 'nothing'" in reply["error"]["message"]


@for_each(
    ("address", "insecure"),
    [
        ("0.0.0.0:0", False),
        ("0.0.0.0:0", True),
        ("[::]:0", True),
        ("10.77.0.1:0", False),
        ("node7:0", False),
    ],
)
def test_address_open_to_others_is_refused_without_encryption(
    address: str, insecure: bool
) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        kit.Server(
            {"worker": [address]},
            credentials=Credentials.new(certificate=False),
            settings=Settings(insecure=insecure),
        )

    assert address in str(caught.value)
