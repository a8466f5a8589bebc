"""Squelch: how far above its watermark an inbox goes, and how many signals there are; model and ends make each run."""

import pytest

from permitflow import SquelchParameters
from permitflow_model.squelch import ON, SYSTEM, Parameters, State
from permitflow_proofs.squelch import worst_step
from permitflow_testing.moves import Lockstep, Move
from tests.support.squelch_pair import SquelchPair, model_parameters

HEADROOM = {(1, 3, 3): 6, (2, 3, 3): 12, (4, 5, 5): 40, (1, 0, 1): 1, (3, 2, 7): 27}
"""For a rate and the delays of signals and data: the most messages above the watermark."""


def together(agreed: SquelchParameters) -> Lockstep[State, Parameters, SquelchPair]:
    return Lockstep(SYSTEM, SquelchPair(agreed), model_parameters(agreed, waiters=1))


def worst_peak(agreed: SquelchParameters) -> int:
    """The fullest inbox while nobody consumes and everything takes as long as it may, for any first tick."""
    return max(_peak(agreed, first) for first in range(agreed.rate))


def _peak(agreed: SquelchParameters, first: int) -> int:
    """Of a sender that has so few messages in the first tick, and then never rests."""
    run, peak = together(agreed), 0
    for action in [*("Offer", "Send") * first, "Tick"]:
        run.do(action)
    while run.state.heard == ON or run.state.wire > 0:
        run.do(worst_step(run.state, run.parameters))
        peak = max(peak, run.state.inbox)
    assert peak <= agreed.capacity
    return peak


@pytest.mark.parametrize(("assumed", "headroom"), HEADROOM.items())
def test_a_stopped_consumer_gets_what_came_before_the_signal(assumed: tuple[int, int, int], headroom: int) -> None:
    rate, signal_delay, data_delay = assumed
    agreed = SquelchParameters(high=7, low=3, rate=rate, signal_delay=signal_delay, data_delay=data_delay)
    assert worst_peak(agreed) == 7 + headroom
    # Room for what is sent while the signal is on its way would be too little.
    assert headroom > rate * signal_delay


@pytest.mark.parametrize("losses", range(4))
def test_each_lost_signal_costs_the_places_until_its_repetition(losses: int) -> None:
    agreed = SquelchParameters(high=8, low=3, rate=2, signal_delay=3, data_delay=3, losses=losses, repeat=14)
    assert worst_peak(agreed) == 8 + 12 + 14 * losses


@pytest.mark.parametrize("low", range(4))
def test_a_gap_between_the_watermarks_saves_signals(low: int) -> None:
    """A consumer that takes every other message: how many signals are there for a hundred messages?"""
    agreed = SquelchParameters(high=3, low=low, rate=1, signal_delay=1, data_delay=1, capacity=9)
    run, signals = together(agreed), 0
    for number in range(100):
        # One comes at once when it may; then one is consumed.
        if run.state.heard == ON:
            for action in ("Offer", "Send", "Deliver"):
                run.do(action)
        if (number % 2 or run.state.heard != ON) and run.state.inbox:
            run.do("Consume")
        for action in ("SendXoff", "SendXon"):
            if run.enables(Move(action)):
                run.do(action)
                run.do("ReceiveSignal")
                signals += 1
        if run.enables(Move("Tick")):
            run.do("Tick")
    assert signals <= 100 // (agreed.high + 1 - agreed.low)
