"""TLS and tokens of the commands that dial, and of the one that serves."""

import asyncio
from pathlib import Path

import psutil
import pytest

from permitflow.client import Security
from permitflow.client.aio import control
from permitflow.exchange import AccessControl
from tests.permitflow_tools.cli.conftest import Command, serving
from tests.support.certificates import Certificates
from tests.support.served import served

TOKEN = "a-token-of-some-length"


async def test_health_and_top_dial_over_tls_with_a_token(
    command: Command, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    of_server = {"security": certificates.server, "access": AccessControl(token_file=file)}
    tls = ("--tls-ca", str(certificates.ca))
    async with served("orders", of_server=of_server) as (_, address):

        async def answer(*arguments: str) -> tuple[int, str, str]:
            return await asyncio.to_thread(command, *arguments)

        assert await answer("health", address, *tls) == (0, "ready\n", "")
        code, _, complaint = await answer("health", address)
        assert (code, "it speaks TLS only" in complaint) == (1, True)
        look = ("top", address, "--once", "--json", "--interval", "1ms", *tls)
        code, _, complaint = await answer(*look)
        assert (code, "it shows no token" in complaint) == (1, True)
        assert (await answer(*look, "--token-file", str(file)))[0] == 0
        monkeypatch.setenv("PERMITFLOW_TOKEN", TOKEN)
        code, seen, complaint = await answer(*look)
        assert (code, '"channel": "orders"' in seen, TOKEN in seen + complaint) == (0, True, False)


async def test_serve_warns_where_nothing_protects_and_lets_bearers_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(TOKEN)
    more = ("--address", "127.0.0.1:0", "--address", "tcp://0.0.0.0:0", "--insecure", "--token-file", str(file))
    with serving("--stream", "orders", "--quiet", *more) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().split()[-1]
        async with control(address, security=Security(token_file=file)) as orders:
            assert [each.channel for each in (await orders.statistics()).channels] == ["orders/0"]
        assert TOKEN not in " ".join(psutil.Process(process.pid).cmdline())
        process.terminate()
        told = process.stderr.read()
    assert told.startswith("warning: tcp://0.0.0.0:0 has no TLS, and other hosts may reach it: everybody there who has")
