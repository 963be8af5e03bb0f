"""Credentials as a container gets them: links and files of root's in a mounted folder.

/mnt/credentials.json -> ..data/credentials.json
/mnt/..data           -> ..2026_11_23
/mnt/..2026_11_23/credentials.json      root's, 0400, or 0440 for a group of the pod
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.errors import InvalidArgumentError, PermissionDeniedError
from kit.wire.handshake.credentials import Credentials

PLAIN = Credentials.new(certificate=False)
USER, GROUP, STRANGER = 12_345, 12_346, 54_321

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@dataclass
class Volume:
    """A folder as a kubelet mounts a secret into it."""

    top: Path

    @property
    def link(self) -> Path:
        return self.top / "credentials.json"

    @property
    def data(self) -> Path:
        return self.top / "..data"

    @property
    def folder(self) -> Path:
        return self.top / "..2026_11_23"

    @property
    def file(self) -> Path:
        return self.folder / "credentials.json"


@pytest.fixture
def volume() -> Iterator[Volume]:
    # Not below tmp_path, where another user may not go.
    made = Volume(Path(tempfile.mkdtemp(prefix="kit-secret-")))
    try:
        PLAIN.save(made.file)
        made.folder.chmod(0o755)
        made.data.symlink_to(made.folder.name)
        made.link.symlink_to("..data/credentials.json")
        made.top.chmod(0o1777)
        yield made
    finally:
        shutil.rmtree(made.top)


@contextmanager
def user(uid: int, *groups: int) -> Iterator[None]:
    """Be another user for a while."""
    before = os.getgroups(), os.getegid()
    os.setgroups(groups)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[1])
        os.setgroups(before[0])


def test_a_secret_of_ours_is_read_through_its_links(volume: Volume) -> None:
    assert Credentials.load(volume.link) == PLAIN


def test_a_relative_path_leads_there_too(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(volume.folder)

    assert Credentials.load(Path("../credentials.json")) == PLAIN


@as_root
@pytest.mark.parametrize("mode", [0o400, 0o440, 0o640])
def test_a_secret_of_root_is_read_by_a_group_of_ours(volume: Volume, mode: int) -> None:
    os.chown(volume.file, 0, GROUP)
    volume.file.chmod(mode | 0o040)

    with user(USER, GROUP):
        assert Credentials.load(volume.link) == PLAIN
        assert Credentials.load(volume.file) == PLAIN  # no link on the way


@as_root
def test_a_secret_is_read_with_the_modes_that_an_fs_group_brings(
    volume: Volume,
) -> None:
    for item, mode in ((volume.top, 0o3777), (volume.folder, 0o2755)):
        os.chown(item, 0, GROUP)
        item.chmod(mode)
    os.chown(volume.file, 0, GROUP)
    volume.file.chmod(0o440)

    with user(USER, GROUP):
        assert Credentials.load(volume.link) == PLAIN


@as_root
@pytest.mark.parametrize(
    ("mode", "group"),
    [(0o444, GROUP), (0o644, GROUP), (0o460, GROUP), (0o444, STRANGER)],
)
def test_a_secret_of_root_that_others_may_read_or_write_is_refused(
    volume: Volume, mode: int, group: int
) -> None:
    os.chown(volume.file, 0, group)
    volume.file.chmod(mode)

    with user(USER, GROUP), pytest.raises(PermissionDeniedError, match="defaultMode"):
        Credentials.load(volume.link)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("folder", 0o777), ("folder", 0o775), ("top", 0o777), ("file", 0o604)],
)
def test_a_way_that_others_can_change_is_refused(
    volume: Volume, name: str, mode: int
) -> None:
    getattr(volume, name).chmod(mode)

    with pytest.raises(PermissionDeniedError, match=r"mode .*owner"):
        Credentials.load(volume.link)


@as_root
@pytest.mark.parametrize("name", ["link", "data", "folder", "file", "top"])
def test_nothing_on_the_way_may_belong_to_a_stranger(volume: Volume, name: str) -> None:
    os.chown(getattr(volume, name), STRANGER, STRANGER, follow_symlinks=False)

    with pytest.raises(PermissionDeniedError, match=f"owner {STRANGER}"):
        Credentials.load(volume.link)


@as_root
def test_a_link_of_a_stranger_to_a_secret_of_ours_is_refused(volume: Volume) -> None:
    other = volume.top / "other.json"
    other.symlink_to(volume.file)
    os.chown(other, STRANGER, STRANGER, follow_symlinks=False)

    with pytest.raises(PermissionDeniedError, match=r"the link other\.json"):
        Credentials.load(other)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("credentials.json", "Too many levels"),
        ("..data", "a folder"),
        ("/", "a folder"),
        ("fifo", "a FIFO"),
    ],
)
def test_a_link_to_what_is_not_a_file_is_refused(
    volume: Volume, target: str, words: str
) -> None:
    os.mkfifo(volume.top / "fifo")
    volume.link.unlink()
    volume.link.symlink_to(target)

    with pytest.raises(InvalidArgumentError, match=words):
        Credentials.load(volume.link)
