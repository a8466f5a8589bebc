"""An exchange that is away is asked again, for as long as the user allows; a refusal is final."""

import pytest

from permitflow.errors import (
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    ResumeTimeoutError,
    StoreTakenOverError,
    UnknownChannelError,
)
from permitflow.spark.patience import Patience


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def patience(clock: Clock, seconds: float) -> Patience:
    return Patience(seconds, ("orders/0", "orders/1", "orders/2"), clock=lambda: clock.now, pause=clock.pause)


def wait_for_ever(trying: Patience) -> None:
    while True:
        trying.wait(PeerGoneError(who="the exchange", reason="nobody listens"))


GONE = PeerGoneError(who="the exchange", reason="nobody listens")


@pytest.mark.parametrize("seconds", [1, 10])
def test_it_waits_until_time_is_over_and_the_error_says_how_long(seconds: int) -> None:
    clock = Clock()
    with pytest.raises(PeerGoneError) as caught:
        wait_for_ever(patience(clock, seconds))
    assert clock.now == pytest.approx(seconds), "the last attempt is at the deadline"
    assert f"option timeoutSeconds: {seconds})" in caught.value.__notes__[0]
    assert caught.value.__notes__[0].endswith("for channel 'orders/0' and 2 more"), "what it was wanted for"


def test_the_last_error_says_with_which_one_it_began() -> None:
    trying = patience(Clock(), 10)
    lost = ResumeTimeoutError(who="the exchange", reason="its connection was closed", seconds=3, attempts=5)
    trying.wait(lost)
    with pytest.raises(PeerGoneError, match="nobody listens") as caught:
        wait_for_ever(trying)
    assert caught.value.__notes__[1] == f"it began with ResumeTimeoutError: {lost}"


@pytest.mark.parametrize(("seconds", "last_seconds"), [(120, 1), (5, 0.5)])
def test_the_last_attempt_has_time_for_a_reply(seconds: int, last_seconds: float) -> None:
    clock = Clock()
    trying = patience(clock, seconds)
    with pytest.raises(PeerGoneError):
        wait_for_ever(trying)
    assert trying.remaining_seconds == last_seconds


def test_progress_begins_the_time_anew() -> None:
    clock = Clock()
    trying = patience(clock, 1)
    for _ in range(20):
        trying.wait(GONE)
        trying.renew()
    assert len(clock.pauses) == 20
    assert trying.remaining_seconds == 1


def test_an_exchange_whose_store_another_one_has_is_asked_again() -> None:
    clock = Clock()
    patience(clock, 10).wait(StoreTakenOverError(path="postgresql://db", by="the exchange b"))
    assert clock.pauses


@pytest.mark.parametrize(
    "error", [UnknownChannelError(channel="a"), PeerTimeoutError(who="the exchange", reason="nothing came for 10 s")]
)
def test_a_refusal_or_a_wait_that_was_long_enough_is_final(error: PermitflowError) -> None:
    clock = Clock()
    with pytest.raises(type(error)):
        patience(clock, 10).wait(error)
    assert not clock.pauses
