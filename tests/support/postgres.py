"""Servers of PostgreSQL for tests: from the distribution, in a folder of their own, heard at a Unix socket only."""

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest

_DISTRIBUTION = "/usr/lib/postgresql"
_numbers = count()
# Everybody is trusted but one user, who needs a password.
LOCKED_USER = "locked"
_RULES = f"local all {LOCKED_USER} scram-sha-256\nlocal all all trust\n"
_SETTINGS = """
listen_addresses = ''
max_connections = 50
shared_buffers = 16MB
wal_level = minimal
max_wal_senders = 0
"""


_END_HOLDER = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_locks
WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = hashtextextended(%s, 0)
"""


def schema_of(address: str) -> str:
    """The schema of a store's address."""
    return address.rpartition("schema=")[2]


def _program(name: str) -> str:
    newest = sorted(map(str, Path(_DISTRIBUTION).glob("*/bin")), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*newest, os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{name} of PostgreSQL is not installed (Debian: apt install postgresql)")
    return found


class PostgresServer:
    """One server, and its folder."""

    def __init__(self, folder: Path) -> None:
        """Of this folder; ``made`` makes it."""
        self.folder = folder

    @classmethod
    def made(cls, folder: Path) -> "PostgresServer":
        """A server in a new folder; it does not run yet."""
        server = cls(folder)
        if (user := server._user) is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        server._run("initdb", "--auth=trust", "--username=permitflow", "--encoding=UTF8", "--no-locale", "--no-sync")
        (folder / "data" / "pg_hba.conf").write_text(_RULES)
        with (folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(f"unix_socket_directories = '{folder}'\n{_SETTINGS}")
        return server

    @property
    def _user(self) -> pwd.struct_passwd | None:
        """PostgreSQL does not run as root."""
        if os.geteuid():
            return None
        for name in ("postgres", "nobody"):
            try:
                return pwd.getpwnam(name)
            except KeyError:
                continue
        pytest.skip("PostgreSQL does not run as root, and there is no other user")

    def _run(self, program: str, *arguments: str) -> None:
        user = self._user
        subprocess.run(
            [_program(program), "--pgdata", str(self.folder / "data"), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
            cwd=self.folder,
        )

    def start(self) -> None:
        """Start, and wait until it can be used."""
        self._run("pg_ctl", "start", "--silent", "--wait", "--log", str(self.folder / "log"))

    def stop(self, how: str = "immediate") -> None:
        """Stop, as it does by a crash, or as ``pg_ctl`` says."""
        self._run("pg_ctl", "stop", "--silent", "--wait", "--mode", how)

    def restart(self) -> None:
        """Stop as by a crash, and start again."""
        self.stop()
        self.start()

    def address(self, schema: str, user: str = "permitflow", **more: str) -> str:
        """Of a store."""
        return f"postgresql://{user}@/postgres?{urlencode({'host': str(self.folder), 'schema': schema, **more})}"

    def new_address(self) -> str:
        """Of a store that is not there yet."""
        return self.address(f"store_{os.getpid()}_{next(_numbers)}")

    def end_holder(self, address: str) -> None:
        """The exchange that has this store loses its connection, and the lock."""
        with self.connected() as look:
            look.execute(_END_HOLDER, [f"permitflow {schema_of(address)}"])

    def connected(self) -> "psycopg.Connection[tuple[object, ...]]":
        """A connection to look, or to do damage."""
        return psycopg.connect(f"postgresql://permitflow@/postgres?host={self.folder}", autocommit=True)


@contextmanager
def server_of_its_own() -> Iterator[PostgresServer]:
    """A running server, and its end."""
    folder = Path(tempfile.mkdtemp(prefix="permitflow-postgres-"))
    try:
        server = PostgresServer.made(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def shared_server(meeting: Path) -> Iterator[PostgresServer]:
    """A running server that all processes share which name the same folder; the last one stops it."""
    meeting.mkdir(exist_ok=True)
    here = meeting / f"user {os.getpid()}"
    where = meeting / "where"
    with _alone(meeting):
        if where.exists():
            server = PostgresServer(Path(where.read_text()))
        else:
            server = PostgresServer.made(Path(tempfile.mkdtemp(prefix="permitflow-postgres-")))
            server.start()
            where.write_text(str(server.folder))
        here.touch()
    try:
        yield server
    finally:
        with _alone(meeting):
            here.unlink()
            if not [*meeting.glob("user *")]:
                where.unlink()
                server.stop()
                shutil.rmtree(server.folder)


@contextmanager
def _alone(meeting: Path) -> Iterator[None]:
    with (meeting / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
