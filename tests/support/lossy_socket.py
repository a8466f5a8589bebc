"""A socket for datagrams that loses, doubles and reorders what it sends, as its seed says."""

import random
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

from permitflow.carriers.datagrams import udp


class Faults(NamedTuple):
    """How often a datagram suffers what, each from 0 to 1."""

    lost: float = 0.0
    doubled: float = 0.0
    overtaken: float = 0.0
    """It leaves behind up to ``MOST_BEHIND`` later ones."""
    altered: float = 0.0
    """One bit of it is flipped."""


MOST_BEHIND = 10
_Address = tuple[object, ...] | None


class LossySocket(socket.socket):
    """It sends through the kernel, into which a part of the datagrams comes late, twice, altered or never.

    One that is held back leaves with a later one: what is sent again, and signs of life, see to it that some follow.
    """

    faults: Faults
    dice: random.Random
    _held: list[tuple[int, bytes, _Address]]
    _sent = 0
    lost = 0

    def arm(self, faults: Faults, seed: int) -> None:
        """From now on, send like this."""
        self.faults, self.dice, self._held = faults, random.Random(seed), []

    def sendmsg(  # type: ignore[override]
        self, buffers: Iterable[bytes], ancdata: tuple[()] = (), flags: int = 0, address: _Address = None
    ) -> int:
        """As that of a socket; what is lost counts as sent."""
        datagram = b"".join(buffers)
        self._suffer(datagram, address)
        return len(datagram)

    def send(self, datagram: bytes, flags: int = 0) -> int:  # type: ignore[override]
        """As that of a socket."""
        return self.sendmsg((datagram,))

    def _suffer(self, datagram: bytes, address: _Address) -> None:
        self._sent += 1
        due = [each for each in self._held if each[0] <= self._sent]
        self._held = [each for each in self._held if each[0] > self._sent]
        faults, dice = self.faults, self.dice
        # Each fault has its own throw, so that one of them does not change when the others happen.
        lost, doubled, overtaken, altered, behind, bit = (dice.random() for _ in range(6))
        if lost < faults.lost:
            self.lost += 1
        else:
            if altered < faults.altered:
                flipped = bytearray(datagram)
                flipped[int(bit * len(flipped))] ^= 1 << int(bit * 8e6) % 8
                datagram = bytes(flipped)
            if overtaken < faults.overtaken:
                self._held.append((self._sent + 1 + int(behind * MOST_BEHIND), datagram, address))
            else:
                self._into_kernel(datagram, address)
            if doubled < faults.doubled:
                self._into_kernel(datagram, address)
        for _, late, to in due:
            self._into_kernel(late, to)

    def _into_kernel(self, datagram: bytes, address: _Address) -> None:
        super().sendmsg((datagram,), (), 0, address)


@contextmanager
def lossy_network(faults: Faults, seed: int) -> Iterator[list[LossySocket]]:
    """In this process, the sockets of carriers over UDP are lossy, in both directions; the sockets that were made."""
    made = list[LossySocket]()
    plain: Callable[[int], socket.socket] = udp.new_socket

    def new_socket(family: int) -> socket.socket:
        kept = plain(family)
        lossy = LossySocket(kept.family, kept.type, kept.proto, kept.detach())
        lossy.setblocking(False)
        lossy.arm(faults, seed + len(made))
        made.append(lossy)
        return lossy

    with patch.object(udp, "new_socket", new_socket):
        yield made
