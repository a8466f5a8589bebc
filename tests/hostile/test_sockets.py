"""Any bytes at the sockets of an exchange: it goes on, keeps nothing of peers that are gone, and no other one waits."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.carriers.datagrams.link import LinkFeedback
from permitflow.carriers.datagrams.packets import Data
from tests.hostile.byte_grammar import (
    CONNECTION,
    Bytes,
    Packets,
    over_http2,
    over_tcp,
    over_udp,
    said_over_http2,
    said_over_tcp,
    said_over_udp,
)
from tests.hostile.grammar import FIRST, LATER, Says, Session, Waits
from tests.hostile.sockets import attack

FEW = settings(max_examples=20)


@FEW
@given(st.lists(over_tcp, min_size=1, max_size=3))
def test_an_exchange_bears_any_bytes_over_tcp(run: asyncio.Runner, peers: Sequence[Bytes]) -> None:
    run.run(attack("tcp://", peers))


SAID: dict[str, Callable[[Session], Bytes | Packets]] = {
    "tcp://": said_over_tcp,
    "": said_over_http2,
    "udp://": said_over_udp,
}


@pytest.mark.parametrize("method", [PUT_STREAM, GET_STREAM])
@pytest.mark.parametrize("scheme", SAID)
def test_an_agreed_peer_may_say_anything_four_times(run: asyncio.Runner, scheme: str, method: str) -> None:
    for later in LATER[method]:
        session = Session(method, (Says(FIRST[method][0]), Waits(1.0), *[Says(later)] * 4))
        run.run(attack(scheme, [SAID[scheme](session)]))


@FEW
@given(st.lists(over_http2, min_size=1, max_size=3))
def test_an_exchange_bears_any_bytes_over_http2(run: asyncio.Runner, peers: Sequence[Bytes]) -> None:
    run.run(attack("", peers))


WRONG_FIRST_AND_LAST = Packets(
    is_connected=True,
    packets=(Data(0, LinkFeedback(CONNECTION, 0, 16), b"no header"), Data(1, LinkFeedback(CONNECTION, 0, 512), b"")),
)


@FEW
@example([WRONG_FIRST_AND_LAST])
@given(st.lists(over_udp, min_size=1, max_size=3))
def test_an_exchange_bears_any_packets_over_udp(run: asyncio.Runner, peers: Sequence[Packets]) -> None:
    run.run(attack("udp://", peers))
