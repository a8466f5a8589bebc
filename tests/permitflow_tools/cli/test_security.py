"""TLS and tokens of the commands that dial, and of the one that serves."""

import asyncio
import re
import shlex
import subprocess
from pathlib import Path

import psutil
import pytest

from permitflow.client import Security, control
from permitflow.exchange import AccessControl
from tests.permitflow_tools.cli.conftest import Command, serving
from tests.support.certificates import Certificates
from tests.support.served import served

TOKEN = "a-token-of-some-length"
GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/network.md"


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


@pytest.mark.long
def test_the_commands_of_the_guide_work_as_they_stand(command: Command, tmp_path: Path) -> None:
    section = GUIDE.read_text().partition("## TLS, tokens, rights\n")[2].partition("\n## ")[0]
    prepare, serve, dial = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    subprocess.run(["bash", "-e", "-c", prepare], cwd=tmp_path, check=True, capture_output=True)
    here = serve.replace("0.0.0.0:50051", "127.0.0.1:0").replace("0.0.0.0:50052", "127.0.0.1:0")
    files = re.compile(r"(?<=[ ])(\w+\.(?:pem|key|toml|token))\b")

    def words(line: str) -> list[str]:
        return shlex.split(files.sub(lambda found: str(tmp_path / found[1]), line))[2:]

    with serving(*words(here), "--quiet") as process:
        assert process.stdout is not None
        port = process.stdout.readline().rpartition(":")[2].strip()
        for line in dial.splitlines():
            name = line.split()[1]
            code, told, complaint = command(name, *words(line.replace("localhost:50051", f"localhost:{port}")))
            assert (code, complaint) == (0, ""), told
