from __future__ import annotations

import datetime
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kit.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError
from kit.wire.handshake.credentials import Credentials
from tests.cases import for_each

PLAIN = Credentials.new(certificate=False)


def test_each_start_has_credentials_of_its_own() -> None:
    other = Credentials.new(certificate=False)

    assert (len(PLAIN.cluster_id), len(PLAIN.key)) == (16, 32)
    assert PLAIN.cluster_id != other.cluster_id
    assert PLAIN.key != other.key
    assert not PLAIN.has_certificate


def test_no_text_shows_a_secret(credentials: Credentials) -> None:
    for text in (repr(credentials), str(credentials), f"{credentials}"):
        assert repr(credentials.key) not in text
        assert credentials.key.hex() not in text
        assert "PRIVATE" not in text


def test_plain_data_brings_everything_back(credentials: Credentials) -> None:
    plain = json.loads(json.dumps(credentials.to_plain()))

    assert Credentials.from_plain(plain) == credentials


@for_each("field", ["cluster_id", "key", "certificate_pem"])
@for_each("value", [None, "not base64!", 7])
def test_a_damaged_field_is_named_and_no_secret_shown(
    field: str, value: object
) -> None:
    plain: dict[str, object] = {**PLAIN.to_plain(), field: value}
    if value is None:
        del plain[field]

    with pytest.raises(InvalidArgumentError, match=field) as caught:
        Credentials.from_plain(plain)
    assert PLAIN.to_plain()["key"] not in str(caught.value)


def test_sizes_are_checked_without_showing_the_key() -> None:
    with pytest.raises(InvalidArgumentError, match="not 16 and 5") as caught:
        Credentials(bytes(16), b"hushx")
    assert "hush" not in str(caught.value)


def test_the_certificate_is_valid_from_yesterday_and_never_ends() -> None:
    from cryptography import x509

    now = datetime.datetime(2030, 6, 1, tzinfo=datetime.UTC)
    made = PLAIN.with_certificate(now=now)
    certificate = x509.load_pem_x509_certificate(made.certificate_pem)

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["psring"]
    assert certificate.not_valid_before_utc == now - datetime.timedelta(days=1)
    # "No well-defined expiration date", RFC 5280, 4.1.2.5.
    never = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    assert certificate.not_valid_after_utc == never
    assert (made.key, made.cluster_id) == (PLAIN.key, PLAIN.cluster_id)
    assert made.with_certificate() is made


@pytest.mark.slow
def test_a_local_cluster_does_not_pay_for_certificates() -> None:
    code = (
        "import sys; from kit.wire import Credentials; "
        "Credentials.new(certificate=False); sys.exit('cryptography' in sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_is_saved_is_for_this_user_and_loads_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cluster.json"
    umask = os.umask(0)
    try:
        PLAIN.save(path)
        PLAIN.save(path)
    finally:
        os.umask(umask)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert Credentials.load(path) == PLAIN
    assert [entry.name for entry in path.parent.iterdir()] == ["cluster.json"]


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    PLAIN.save(path)
    path.chmod(0o640)

    with pytest.raises(PermissionDeniedError, match=r"-rw-r-----.*chmod go="):
        Credentials.load(path)


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)

    with pytest.raises(PermissionDeniedError):
        PLAIN.save(tmp_path / "cluster.json")
    assert list(tmp_path.iterdir()) == []


def test_saving_onto_a_link_replaces_the_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "cluster.json").symlink_to(victim)

    PLAIN.save(tmp_path / "cluster.json")

    assert victim.read_text() == "untouched"
    assert Credentials.load(tmp_path / "cluster.json") == PLAIN


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="stopped"):
        Credentials.load(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["", "[]", "{", "\0" * 9, '{"key": "c2VjcmV0"}'])
def test_a_damaged_file_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.json"
    path.touch(mode=0o600)
    path.write_text(text)

    with pytest.raises(InvalidArgumentError) as caught:
        Credentials.load(path)
    assert "c2VjcmV0" not in str(caught.value)
