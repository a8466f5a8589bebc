"""What ``permitflow serve`` does between its start and its end, inside its process."""

import asyncio

import pytest

from permitflow.cli.serve_reports import Silence
from permitflow.cli.serving import _watch
from permitflow.exchange.registry import Exchange


def test_nobody_looks_at_the_channels_for_whom_nothing_is_said(
    run: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def watch() -> None:
        stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(stopped.set_result, True)
        await _watch(Exchange(), Silence(), stopped)

    monkeypatch.setattr(Exchange, "statistics", lambda _: pytest.fail("it is looked at"))
    run.run(watch())
