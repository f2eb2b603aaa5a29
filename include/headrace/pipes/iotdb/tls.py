"""TLS for connections to IoTDB: servers whose certificates a trust store has are trusted."""

from __future__ import annotations

import hashlib
import hmac
import io
import ssl
import struct
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from headrace.errors import ConfigurationError

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
PEM_MARK: Final = b"-----BEGIN CERTIFICATE-----"
CERTIFICATE_ENTRY: Final = 2
DIGEST_BYTES: Final = 20
DIGEST_SALT: Final = b"Mighty Aphrodite"
"""What the checksum of a Java key store is salted with, beside the password."""


def client_context(path: str, password: str) -> ssl.SSLContext:
    """Return a context that trusts the certificates of a store: a Java key store (JKS or PKCS #12) or a PEM file.

    Raises:
        ConfigurationError: The file is missing or no trust store, the password is wrong, or it has no certificates.
    """
    certificates = read_trust_store(path, password)
    if not certificates:
        raise ConfigurationError(f"trust store {path} has no certificates", hint="import the certificate of the server into it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # A trust store lists the servers themselves, as IoTDB's clients read it, so that names of hosts need not be in certificates.
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for certificate in certificates:
        context.load_verify_locations(cadata=certificate)
    return context


def read_trust_store(path: str, password: str) -> list[bytes]:
    """Return the certificates of a trust store, DER-encoded."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"trust store {path} cannot be read: {error.strerror}", hint="check ssl.trust-store-path"
        ) from error
    try:
        if PEM_MARK in content:
            return [certificate.public_bytes(Encoding.DER) for certificate in x509.load_pem_x509_certificates(content)]
        return read_jks(content, password) if content.startswith(JKS_MAGIC) else read_pkcs12(content, password)
    except (ValueError, struct.error) as error:
        raise ConfigurationError(
            f"trust store {path} cannot be read: {error}", hint="check ssl.trust-store-pwd; the file is JKS, PKCS #12 or PEM"
        ) from error


def read_pkcs12(content: bytes, password: str) -> list[bytes]:
    store = pkcs12.load_pkcs12(content, password.encode() or None)
    entries = [store.cert, *store.additional_certs]
    return [item.certificate.public_bytes(Encoding.DER) for item in entries if item is not None]


def read_jks(content: bytes, password: str) -> list[bytes]:
    """Return the certificates of Java's own format; entries with keys are no trusted certificates, so they are an error."""
    body, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    expected = hashlib.sha1(password.encode("utf-16-be") + DIGEST_SALT + body).digest()
    if not hmac.compare_digest(expected, digest):
        raise ValueError("the password is wrong, or the file is damaged")
    source = io.BytesIO(body)
    _, version, count = struct.unpack(">4sii", source.read(12))
    certificates = []
    for _ in range(count):
        (tag,) = struct.unpack(">i", source.read(4))
        if tag != CERTIFICATE_ENTRY:
            raise ValueError("it has a private key")
        read_short(source)
        source.read(8)
        if version > 1:
            read_short(source)
        (length,) = struct.unpack(">i", source.read(4))
        certificates.append(source.read(length))
    return certificates


def read_short(source: io.BytesIO) -> bytes:
    (length,) = struct.unpack(">H", source.read(2))
    return source.read(length)
