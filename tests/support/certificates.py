"""Certificates of servers on this machine, each its own authority."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def make_certificate(folder: Path, days: int = 1) -> tuple[Path, Path]:
    """Write a new key and its certificate for 127.0.0.1; return the files of the certificate and of the key."""
    folder.mkdir(exist_ok=True)
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "door.example")])
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - dt.timedelta(days=2), now + dt.timedelta(days=days)
    )
    certificate = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    return folder / "certificate.pem", folder / "key.pem"
