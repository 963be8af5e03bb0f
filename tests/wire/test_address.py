from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError, PermissionDeniedError
from kit.wire.listening.address import (
    MAX_UNIX_PATH,
    Address,
    TcpAddress,
    UnixAddress,
    check_exposure,
    is_local,
    parse_address,
)
from tests.cases import for_each

HOSTS = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)


@example(UnixAddress("/ends with a blank "))
@given(
    st.builds(
        TcpAddress,
        HOSTS | st.ip_addresses().map(str),
        st.integers(0, 65_535),
    )
    | st.builds(UnixAddress, st.from_regex(r"/[ -~]{0,90}", fullmatch=True))
)
def test_an_address_reads_back_what_it_prints(address: Address) -> None:
    assert parse_address(str(address)) == address


@for_each(
    "text",
    [
        *("", "node7", "node7:", ":80", "node7:65536", "node7:-1", "node7:8x"),
        *("::1:80", "[node7]x:80", "a b:80", "a/b:1", "node7:\u0663"),
        *("unix:", "unix:relative", "unix:@abstract", "unix:\0abstract"),
    ],
)
def test_other_text_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_address(text)


def test_a_unix_path_may_have_107_bytes_and_not_108() -> None:
    UnixAddress("/" + "p" * (MAX_UNIX_PATH - 1))

    with pytest.raises(InvalidArgumentError, match="this one has 108"):
        UnixAddress("/" + "p" * MAX_UNIX_PATH)
    with pytest.raises(InvalidArgumentError, match="this one has 109"):
        UnixAddress("/" + "é" * 54)


@for_each(
    ("text", "local"),
    [
        ("unix:/run/kit/s", True),
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("node7:1", False),
        ("localhost.example:1", False),
    ],
)
def test_local_is_what_no_other_machine_reaches(text: str, local: bool) -> None:
    address = parse_address(text)

    assert is_local(address) is local
    check_exposure(address, encrypted=True, insecure=False)
    if local:
        check_exposure(address, encrypted=False, insecure=False)
    else:
        with pytest.raises(
            PermissionDeniedError, match="read and write the user's files"
        ):
            check_exposure(address, encrypted=False, insecure=False)


def test_insecure_opens_one_interface_and_never_all() -> None:
    check_exposure(TcpAddress("10.0.0.1", 1), encrypted=False, insecure=True)

    for host in ("0.0.0.0", "::"):
        with pytest.raises(PermissionDeniedError, match="one interface"):
            check_exposure(TcpAddress(host, 1), encrypted=False, insecure=True)
