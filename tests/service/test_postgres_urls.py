"""Ordinary PostgreSQL URLs: each works for the service and the migration, or is refused by name."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from runlease_service.database.base import DatabaseSetupError
from runlease_service.database.migrate import migrate
from runlease_service.database.postgres_link import check_url
from tests.postgres_server import PostgresServer, run_sql
from tests.service.api import record_of
from tests.service.in_process import service_at

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tls") / "server.crt"
    make_certificate(file)
    return file


def make_certificate(file: Path) -> None:
    """A self-signed certificate of 127.0.0.1, and beside it its key."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
        " -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", file.with_suffix(".key"), "-out", file],
        check=True,
        capture_output=True,
    )


class Encrypting:
    """TLS in front of a server that has none of its own, by PostgreSQL's handshake: the client asks
    in eight bytes, is answered with one, and only then begins TLS."""

    ASKED: Final = bytes.fromhex("0000000804d2162f")

    def __init__(self, to_port: int, certificate: Path) -> None:
        self._to_port = to_port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            # Whoever does not ask for TLS is not let through.
            if client.recv(8) == self.ASKED:
                client.sendall(b"S")
                with (
                    self._context.wrap_socket(client, server_side=True) as inner,
                    socket.create_connection(("127.0.0.1", self._to_port)) as server,
                ):
                    back = threading.Thread(target=self._pump, args=[server, inner], daemon=True)
                    back.start()
                    self._pump(inner, server)
                    back.join()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listening.close()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(options=["listen_addresses=127.0.0.1,::1"]) as one:
        migrate(one.url())
        yield one


@pytest.fixture(scope="module")
def encrypting(server: PostgresServer, certificate: Path) -> Iterator[Encrypting]:
    one = Encrypting(server.port, certificate)
    yield one
    one.close()


URLS: Final = {
    "postgres://": "postgres://postgres@127.0.0.1:{port}/postgres",
    "postgresql://": "postgresql://postgres@127.0.0.1:{port}/postgres",
    "the driver's name": "postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres",
    "sslmode=require": "postgresql://postgres@127.0.0.1:{tls_port}/postgres?sslmode=require",
    "sslmode=verify-full": "postgresql://postgres@127.0.0.1:{tls_port}/postgres"
    "?sslmode=verify-full&sslrootcert={certificate}",
    "several hosts": "postgresql://postgres@127.0.0.1:1,127.0.0.1:{port}/postgres"
    "?target_session_attrs=read-write",
    "several hosts as a parameter": "postgresql://postgres@/postgres"
    "?host=127.0.0.1,127.0.0.1&port=1,{port}",
    "application_name": "postgresql://postgres@127.0.0.1:{port}/postgres?application_name=mine",
    "a Unix socket": "postgresql://postgres@/postgres?host={folder}&port={port}",
    "IPv6": "postgresql://postgres@[::1]:{port}/postgres",
}


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("form", URLS.values(), ids=URLS)
async def test_an_ordinary_url_works(
    form: str, server: PostgresServer, encrypting: Encrypting, certificate: Path
) -> None:
    if "[::1]" in form and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    url = form.format(
        port=server.port,
        tls_port=encrypting.port,
        folder=server.folder,
        certificate=certificate,
    )

    assert "already" in await asyncio.to_thread(migrate, url)
    async with service_at(url) as api:
        record = record_of(await api.acquire(uuid4().hex), 201)
        sessions = run_sql(
            server.url(),
            "SELECT application_name FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        )

    assert record["fencingToken"] == 1
    assert {name for (name,) in sessions} == {"mine" if "=mine" in form else "runlease"}


async def test_tls_is_never_silently_off(server: PostgresServer) -> None:
    for mode in ("require", "verify-ca", "verify-full"):
        url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres?sslmode={mode}"
        with pytest.raises(DatabaseSetupError, match=r"SSL|certificate"):
            await asyncio.to_thread(migrate, url)


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    encrypting: Encrypting, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    make_certificate(other)
    url = f"postgresql://postgres@127.0.0.1:{encrypting.port}/postgres?sslmode=verify-full"

    with pytest.raises(DatabaseSetupError, match="certificate"):
        await asyncio.to_thread(migrate, f"{url}&sslrootcert={other}")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sslmode=on", "sslmode must be one of"),
        ("sslmodus=require", "the parameter 'sslmodus', which is not known here"),
        ("sslrootcert=/nowhere/ca.pem", "sslrootcert names no file: /nowhere/ca.pem"),
        ("target_session_attrs=standby", "target_session_attrs must be one of"),
        ("channel_binding=require", "the parameter 'channel_binding', which is not known here"),
    ],
)
def test_a_parameter_that_is_not_understood_is_named(query: str, words: str) -> None:
    with pytest.raises(DatabaseSetupError, match=words):
        check_url(f"postgresql://db.example/runs?{query}")
