"""The secrets of one cluster: its id, its key and, between machines, its certificate.

Made anew at each start, handed to the engines over the encrypted control channel, never
put into arguments or environment. `repr` shows no secret. Anyone who holds the key has
full control of the cluster; without it nobody gets anything from it.

A cluster on one machine needs no certificate, and making one costs 0.1 s and the import
of `cryptography`: `Credentials.new(certificate=False)`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kit.errors import InvalidArgumentError, NotFoundError, noted_at
from kit.wire.handshake.private import make_private_folder, open_private

CERTIFICATE_NAME: Final = "psring"
# RFC 5280, 4.1.2.5: a certificate with no well-defined expiration date.
_NO_END: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
_MOST_BYTES: Final = 65_536
_FIELDS: Final = ("cluster_id", "key", "certificate_pem", "private_key_pem")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets by which processes prove that they belong to a cluster.

    Make them with `Credentials.new()`. Their repr does not show the secrets.

    Parameters
    ----------
    cluster_id : bytes
        16 bytes.
    key : bytes
        32 bytes, secret.
    certificate_pem, private_key_pem : bytes, default b""
        For TLS, as PEM; both empty without.

    Raises
    ------
    InvalidArgumentError
        An id or key has another size; the values are not shown.

    Examples
    --------
    >>> Credentials.new(certificate=False).has_certificate
    False
    """

    cluster_id: bytes
    key: bytes = field(repr=False)
    certificate_pem: bytes = field(default=b"", repr=False)
    private_key_pem: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if (len(self.cluster_id), len(self.key)) != (16, 32):
            raise InvalidArgumentError(
                f"a cluster id has 16 bytes and a key 32, not {len(self.cluster_id)} "
                f"and {len(self.key)}; make both with Credentials.new()."
            )

    @classmethod
    def new(
        cls, *, certificate: bool = True, now: datetime.datetime | None = None
    ) -> Credentials:
        """Return fresh credentials.

        Parameters
        ----------
        certificate : bool, default True
            With a certificate, which TCP between machines needs. It costs 0.1 s the
            first time in a process.
        now : datetime, optional
            Dates the certificate, in UTC; by default the time now.
        """
        plain = cls(secrets.token_bytes(16), secrets.token_bytes(32))
        return plain.with_certificate(now=now) if certificate else plain

    @property
    def has_certificate(self) -> bool:
        """Whether links to other machines can be encrypted."""
        return bool(self.certificate_pem)

    def with_certificate(self, *, now: datetime.datetime | None = None) -> Credentials:
        """Return the same credentials with a certificate, a new one if there is none.

        Costs 0.1 s the first time in a process.
        """
        if self.has_certificate:
            return self
        pem, key_pem = _make_certificate(now or datetime.datetime.now(datetime.UTC))
        return replace(self, certificate_pem=pem, private_key_pem=key_pem)

    def to_plain(self) -> dict[str, str]:
        """Return everything, secrets too, as base64 text that JSON can carry."""
        return {
            name: base64.b64encode(getattr(self, name)).decode() for name in _FIELDS
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Credentials:
        """Return what `to_plain` wrote; `InvalidArgumentError` names a bad field."""
        values = []
        for name in _FIELDS:
            try:
                values.append(base64.b64decode(str(plain[name]), validate=True))
            except (KeyError, binascii.Error) as exc:
                raise InvalidArgumentError(
                    f"credentials lack a readable field {name!r}; take them from the "
                    f"running cluster again."
                ) from exc
        return cls(*values)

    def save(self, path: Path) -> None:
        """Write everything, secrets too, to a file that only this user can read (0600).

        Parameters
        ----------
        path : Path
            Replaced as a whole. Its folder must be this user's alone; it is made if
            missing.

        Raises
        ------
        PermissionDeniedError
            Others may enter the folder.
        """
        make_private_folder(path.parent)
        # Made under another name, and with its final mode from the beginning: there is
        # never a file that others can read, or one that is cut short.
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, 0o600), "w") as file:
                json.dump(self.to_plain(), file)
            temporary.replace(path)
        except BaseException as error:
            with noted_at(error):
                temporary.unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path) -> Credentials:
        """Read what `save` wrote.

        Parameters
        ----------
        path : Path
            The file is this user's own and for nobody else (0600), or it came as a
            mounted secret does, by a link or as root's: then nobody but root and this
            user may be able to change anything on the way to it, links and their
            folders included, and root's file may be read by a group of ours (0440).
            `open_private` has the rule.

        Raises
        ------
        NotFoundError
            There is no such file.
        InvalidArgumentError
            It holds something else, or cannot be read.
        PermissionDeniedError
            The file, or a folder or link on the way to it, is open to others.
        """
        try:
            file = open_private(path)
        except FileNotFoundError as exc:
            raise NotFoundError(
                f"there are no credentials at {path}; has the cluster stopped?"
            ) from exc
        except OSError as exc:
            raise InvalidArgumentError(
                f"the credentials at {path} cannot be read: {exc.strerror}."
            ) from exc
        with file:
            text = file.read(_MOST_BYTES)
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError):
            plain = None
        if not isinstance(plain, dict):
            # No cause is attached: it would show the file's text, which holds secrets.
            raise InvalidArgumentError(f"{path} does not hold credentials.") from None
        return cls.from_plain(plain)


def _make_certificate(now: datetime.datetime) -> tuple[bytes, bytes]:
    """Return a self-signed certificate and its key; valid from yesterday without end.

    It is trusted because both sides hold it, as they hold the cluster's key, which does
    not expire either: an end would only make a cluster or a saved file fail some day.
    `tls` ignores the dates. They are for other programs and older versions of this one,
    and begin a day earlier, because the clocks of other machines may be behind.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CERTIFICATE_NAME)])
    names = x509.SubjectAlternativeName([x509.DNSName(CERTIFICATE_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(_NO_END)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    key_pem = key.private_bytes(
        encoding,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(encoding), key_pem
