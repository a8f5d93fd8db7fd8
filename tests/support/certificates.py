"""Certificates for tests, made by ``openssl`` when they are needed."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificate:
    """A certificate, and its key."""

    cert_file: Path
    key_file: Path


def make_authority(directory: Path, name: str) -> Certificate:
    """Return one that signs others, and itself."""
    made = _place(directory, name)
    _run("req", "-x509", *_NEW_KEY, *_files(made), "-subj", f"/CN={name}", "-days", "2")
    return made


def make_certificate(directory: Path, host: str, authority: Certificate) -> Certificate:
    """Return one for a host name, signed by an authority."""
    made = _place(directory, host)
    _run(
        *("req", "-x509", *_NEW_KEY, *_files(made), "-subj", f"/CN={host}", "-days", "2"),
        *("-addext", f"subjectAltName=DNS:{host}", "-addext", "basicConstraints=critical,CA:FALSE"),
        *("-CA", str(authority.cert_file), "-CAkey", str(authority.key_file)),
    )
    return made


def encrypt_key(key_file: Path, encrypted: Path) -> None:
    """Write a key so that a password is needed to read it."""
    _run(
        *("pkey", "-in", str(key_file), "-aes256", "-passout", "pass:word"),
        *("-out", str(encrypted)),
    )


def _place(directory: Path, name: str) -> Certificate:
    return Certificate(directory / f"{name}.crt", directory / f"{name}.key")


def _files(certificate: Certificate) -> tuple[str, ...]:
    return ("-keyout", str(certificate.key_file), "-out", str(certificate.cert_file))


def _run(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
