"""HTTPS, and client certificates as credentials, with real handshakes."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Final

import httpx
import pytest
import yaml

import runlease
from runlease import AccessError
from tests.service.server import serve

NEW_KEY: Final = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"


class Authority:
    """A certificate authority of a test's own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        self._run(
            f"{NEW_KEY} -x509 -subj /CN={name}", "-keyout", self._key, "-out", self.certificate
        )

    def issue(self, name: str, *extensions: str) -> tuple[str, str]:
        """A certificate and its key."""
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        self._run(
            f"{NEW_KEY} -x509 -subj /CN={name}",
            *("-CA", self.certificate, "-CAkey", self._key),
            *("-keyout", key, "-out", certificate),
            *(part for one in extensions for part in ("-addext", one)),
        )
        return str(certificate), str(key)

    @staticmethod
    def _run(command: str, *arguments: str | Path) -> None:
        subprocess.run([*command.split(), *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture(scope="module")
def server_files(authority: Authority) -> tuple[str, str]:
    return authority.issue("server", "subjectAltName=IP:127.0.0.1")


def trusting(authority: Authority, client: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if client is not None:
        context.load_cert_chain(*client)
    return context


def test_a_client_certificate_is_a_credential_like_any_other(
    authority: Authority, server_files: tuple[str, str], tmp_path: Path
) -> None:
    worker, stranger = authority.issue("worker-a"), authority.issue("stranger")
    forger = Authority(tmp_path, "forger").issue("worker-a")
    tokens = tmp_path / "tokens.yaml"
    entry = {
        "name": "team-a",
        "certificate": "worker-a",
        "scopes": ["read", "work"],
        "prefixes": ["team-a/"],
    }
    tokens.write_text(yaml.safe_dump({"tokens": [entry]}))
    with serve(
        f"sqlite:///{tmp_path}/runs.db",
        tls_certificate=server_files[0],
        tls_key=server_files[1],
        tls_client_ca=authority.certificate,
        tokens_file=tokens,
        ready=trusting(authority),
    ) as server:
        url = f"https://127.0.0.1:{server.port}"
        with runlease.connect(
            url, verify=str(authority.certificate), cert=worker, heartbeat=False
        ) as ledger:
            with ledger.acquire("team-a/run-1") as run:
                assert run.held
            with pytest.raises(AccessError, match="FORBIDDEN"):
                ledger.acquire("team-b/run-1")
        with (
            runlease.connect(url, verify=str(authority.certificate), cert=stranger) as other,
            pytest.raises(AccessError, match="UNAUTHENTICATED: the certificate"),
        ):
            other.get("team-a/run-1")
        with (
            runlease.connect(url, verify=str(authority.certificate)) as nobody,
            pytest.raises(AccessError, match="UNAUTHENTICATED: send a credential"),
        ):
            nobody.get("team-a/run-1")
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            httpx.get(f"{url}/v1/runs", verify=trusting(authority, forger))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/healthz")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{server.port}/healthz")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"TLS_CERTIFICATE": "a.pem"}, "go together"),
        ({"TLS_CLIENT_CA": "a.pem"}, "needs tls_certificate"),
        ({"TLS_CERTIFICATE": "no.pem", "TLS_KEY": "no.pem"}, "cannot be used: No such file"),
    ],
)
def test_tls_that_cannot_work_is_refused_in_a_line(
    variables: dict[str, str], words: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runlease_service.cli", "serve", "--port", "0"],
        env={**os.environ, **{f"RUNLEASE_{name}": value for name, value in variables.items()}},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
