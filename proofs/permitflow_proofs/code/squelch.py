"""``SquelchSender`` and ``SquelchReceiver`` refine ``Squelch``.

The code has no clock: that no more is sent in a tick than the rate, and that nothing is late, is assumed of it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from permitflow.flows import byte_window
from permitflow.flows.squelch import core
from permitflow_model.squelch import (
    OFF,
    ON,
    SYSTEM,
    Parameters,
    State,
    is_late,
    needed_headroom,
)
from permitflow_proofs.code.message_flow import (
    NEWEST,
    ReceiverOfMessages,
    SenderOfMessages,
    begins_empty,
    receiver_calls,
    sender_calls,
)
from permitflow_proofs.code.refinement import Call, Outcome, is_possible, obligation
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.symbols import assume, merged
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.squelch import INVARIANT, any_parameters, any_state


def _any_numbers() -> Parameters:
    made = any_parameters()
    assume(made.capacity >= made.high + needed_headroom(made))
    return made


def since_told(state: State, _parameters: Parameters) -> bool:
    """Messages are counted only since the sender was told to stop."""
    return state.told == OFF or state.since == 0


ANY = Subject(SYSTEM, _any_numbers, partial(any_state, invariant={**INVARIANT, "SinceTold": since_told}))


def _as_code(made: Parameters) -> core.SquelchParameters:
    kept = object.__new__(core.SquelchParameters)
    for name in ("high", "low", "capacity", "rate", "signal_delay", "data_delay", "repeat", "losses"):
        object.__setattr__(kept, name, getattr(made, name))
    return kept


class _Sender(SenderOfMessages):
    subject = ANY
    end = core.SquelchSender
    own_modules = (core, byte_window)
    off_by_one = "_sent_rows"

    def any_case(self) -> tuple[State, Parameters]:
        """Nothing is late, and two more may leave in this tick."""
        state, made = super().any_case()
        assume(state.sent + 2 <= made.rate)
        assume(merged(lambda: not is_late(state, made)))
        return state, made

    def numbers(self) -> core.SquelchParameters:
        """As the code keeps them."""
        return _as_code(self.parameters)

    def waiting(self, state: State) -> int:
        """This many wait."""
        return state.waiting

    def counts(self, state: State) -> Mapping[str, Any]:
        """What it was told."""
        return {"_is_stopped": bool(state.heard == OFF)}


class _WithWatermark(_Sender):
    has_watermark = True


class _Idle(_Sender):
    is_idle = True


class _Known(_Sender):
    newest = NEWEST


class _Told(_Sender):
    """A signal is on its way."""

    def any_case(self) -> tuple[State, Parameters]:
        """There is one."""
        state, made = SenderOfMessages.any_case(self)
        assume(state.signals.size() > 0)
        return state, made


SENDER: tuple[Call[Any], ...] = (
    *sender_calls(_Sender, _WithWatermark, _Idle, _Known),
    Call(
        "a signal arrives",
        _Told,
        lambda end, case: end.on_feedback(core.Signal(bool(case.state.signals.head().word == OFF))),
        lambda _: True,
    ),
)


class _Receiver(ReceiverOfMessages):
    subject = ANY
    end = core.SquelchReceiver
    own_modules = (core, byte_window)
    off_by_one = "since"
    is_reminding = False

    def any_case(self) -> tuple[State, Parameters]:
        """Any state; if it reminds, then of what the model may tell again."""
        state, made = super().any_case()
        if self.is_reminding:
            assume(merged(lambda: SYSTEM.is_enabled("ResendXon", state, made)))
        return state, made

    def numbers(self) -> core.SquelchParameters:
        """As the code keeps them."""
        return _as_code(self.parameters)

    def here(self, state: State) -> int:
        """This many are here."""
        return state.inbox

    def on_the_way(self, state: State) -> int:
        """This many are on the wire."""
        return state.wire

    def counts(self, state: State) -> Mapping[str, Any]:
        """What was told, and what has come since."""
        told = {"has_told_off": bool(state.told == OFF), "since": state.since}
        return {**told, "_is_reminder_due": self.is_reminding}

    def may_arrive(self, number: int) -> bool:
        """Are there places?"""
        return bool(self.state.inbox + number <= self.parameters.capacity)

    def arrived(self, number: int) -> State:
        """They are here."""
        state: State = self.state
        since = state.since + number if state.told == OFF else 0
        return state._replace(inbox=state.inbox + number, since=since)


class _Arriving(_Receiver):
    has_arriving = True


class _Reminding(_Receiver):
    is_reminding = True


def _is_the_word(case: _Receiver, after: State, outcome: Outcome) -> bool:
    return outcome.result is None or outcome.result.stop == bool(after.told == OFF)


def _is_reminded(_case: _Receiver, _after: State, _outcome: Outcome) -> Mapping[str, Any]:
    return {"_is_reminder_due": False}


def _will_remind(_case: _Receiver, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    return {} if outcome.refusal else {"_is_reminder_due": True}


RECEIVER: tuple[Call[Any], ...] = (
    *receiver_calls(_Receiver, _Arriving),
    Call(
        "a signal leaves, if one is due",
        _Receiver,
        lambda end, _: end.take_feedback(),
        lambda case: is_possible(case, "SendXoff", "SendXon"),
        returns=_is_the_word,
    ),
    Call(
        "a reminder leaves",
        _Reminding,
        lambda end, _: end.take_feedback(),
        lambda _: True,
        _is_reminded,
        _is_the_word,
    ),
    Call(
        "a reminder is asked for, or must not be",
        _Receiver,
        lambda end, _: end.remind(),
        lambda _: False,
        _will_remind,
        lambda case, _after, outcome: (outcome.refusal is None) == bool(case.state.told == ON),
    ),
    *(
        Call(
            f"how soon a {word} leaves",
            case,
            lambda end, _: (end.urgency, end.unsettled()),
            lambda _: False,
            returns=lambda case, _after, outcome: (
                (outcome.result[0] > 0) == (case.is_reminding or is_possible(case, "SendXoff", "SendXon"))
                and outcome.result[1] is False
            ),
        )
        for case, word in ((_Receiver, "signal"), (_Reminding, "reminder"))
    ),
)


def _counted_while_on(state: State, _parameters: Parameters) -> State:
    return state._replace(told=ON, since=1)


def theorems() -> tuple[Theorem, ...]:
    """The claims about both ends."""
    return (
        Theorem(
            id="code-squelch-sender",
            statement=(
                "The running SquelchSender does what its model does, in a tick in which it may send two messages more."
            ),
            module="Squelch",
            operator="Next",
            obligations=(begins_empty(_Sender), *map(obligation, SENDER)),
        ),
        Theorem(
            id="code-squelch-receiver",
            statement=(
                "Likewise the running SquelchReceiver, if it has the places that the delays need; it counts messages "
                "only since the sender was told to stop."
            ),
            module="Squelch",
            operator="Next",
            obligations=(
                begins_empty(_Receiver),
                *map(obligation, RECEIVER),
                *ANY.induction(since_told, _counted_while_on, "after the step one is counted, and nobody was told"),
            ),
        ),
    )
