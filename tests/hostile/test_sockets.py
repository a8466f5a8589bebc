"""Any bytes at the sockets of an exchange: it goes on, keeps nothing of peers that are gone, and no other one waits."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from permitflow.carriers.datagrams.link import Feedback
from permitflow.carriers.datagrams.packets import Data
from tests.hostile.byte_grammar import CONNECTION, Bytes, Packets, over_http2, over_tcp, over_udp
from tests.hostile.sockets import Attacked, attack, attacked


@contextmanager
def _target(run: asyncio.Runner, scheme: str) -> Iterator[Attacked]:
    context = attacked(scheme)
    target = run.run(context.__aenter__())
    try:
        yield target
    finally:
        run.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def over_tcp_target(run: asyncio.Runner) -> Iterator[Attacked]:
    with _target(run, "tcp://") as target:
        yield target


@pytest.fixture(scope="module")
def over_grpc_target(run: asyncio.Runner) -> Iterator[Attacked]:
    with _target(run, "") as target:
        yield target


@pytest.fixture(scope="module")
def over_udp_target(run: asyncio.Runner) -> Iterator[Attacked]:
    with _target(run, "udp://") as target:
        yield target


FEW = settings(max_examples=20)


@FEW
@given(st.lists(over_tcp, min_size=1, max_size=3))
def test_an_exchange_bears_any_bytes_over_tcp(
    run: asyncio.Runner, over_tcp_target: Attacked, peers: Sequence[Bytes]
) -> None:
    run.run(attack(over_tcp_target, peers))


@FEW
@given(st.lists(over_http2, min_size=1, max_size=3))
def test_an_exchange_bears_any_bytes_over_http2(
    run: asyncio.Runner, over_grpc_target: Attacked, peers: Sequence[Bytes]
) -> None:
    run.run(attack(over_grpc_target, peers))


WRONG_FIRST_AND_LAST = Packets(
    is_connected=True,
    packets=(Data(0, Feedback(CONNECTION, 0, 16), b"no header"), Data(1, Feedback(CONNECTION, 0, 512), b"")),
)


@FEW
@example([WRONG_FIRST_AND_LAST])
@given(st.lists(over_udp, min_size=1, max_size=3))
def test_an_exchange_bears_any_packets_over_udp(
    run: asyncio.Runner, over_udp_target: Attacked, peers: Sequence[Packets]
) -> None:
    run.run(attack(over_udp_target, peers))
