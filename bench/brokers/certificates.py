"""A certificate authority of one broker's life, with a server and two clients, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from bench.brokers.endpoint import Unavailable

SERVER = "subjectAltName=DNS:localhost,IP:127.0.0.1"
QUICK = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
"""A key on P-256 is there at once; RSA takes a while."""


class Certificates(Struct, frozen=True):
    """PEM files: the authority; what the server shows (its key and certificate in one file, as Kafka wants them); a
    client and its key; and the same key under `password`.
    """

    ca: Path
    server: Path
    client: Path
    client_key: Path
    locked_key: Path
    password: str = "key-secret"


def make(folder: Path) -> Certificates:
    """The server is 127.0.0.1 and localhost, the client is CN=client. All are valid for a day."""
    if shutil.which("openssl") is None:
        raise Unavailable("certificates for tests are made by openssl: install it")
    folder.mkdir(parents=True, exist_ok=True)
    certificates = Certificates(
        folder / "ca.pem", folder / "server.pem", folder / "client.pem", folder / "client.key", folder / "locked.key"
    )
    ca_key = folder / "ca.key"
    _openssl(
        "req", "-x509", *QUICK, "-keyout", ca_key, "-out", certificates.ca, "-days", "1", "-subj", "/CN=headrace tests",
    )  # fmt: skip
    server_key = folder / "server.key"
    _signed(folder, "localhost", server_key, certificates.server, SERVER)
    certificates.server.write_text(server_key.read_text() + certificates.server.read_text())
    _signed(folder, "client", certificates.client_key, certificates.client, "extendedKeyUsage=clientAuth")
    _openssl(
        "pkcs8", "-topk8", "-in", certificates.client_key, "-out", certificates.locked_key,
        "-passout", f"pass:{certificates.password}",
    )  # fmt: skip
    return certificates


def _signed(folder: Path, name: str, key: Path, certificate: Path, extension: str) -> None:
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(extension + "\n")
    _openssl("req", *QUICK, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    _openssl(
        "x509", "-req", "-in", request, "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial",
        "-out", certificate, "-days", "1", "-extfile", extensions,
    )  # fmt: skip


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise Unavailable(f"openssl {arguments[0]} failed: {done.stderr[-500:]}")
