"""Mistakes on purpose in ``resume``."""

from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_model.resume import SYSTEM, Parameters, Request, State, diallers_position

SENDER_DIALS = Parameters(window=1, every=1, total=2, connections=3, sender_dials=True)

RECEIVER_DIALS = Parameters(window=1, every=1, total=2, connections=3, sender_dials=False)

TOGETHER = Parameters(window=2, every=2, total=3, connections=2, sender_dials=True)


def sends_a_message_more_than_it_has_permits(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state._replace(returned=state.returned + 1), parameters)
    return after._replace(returned=state.returned)


def still_hears_the_older_connection(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Accept", state, parameters)._replace(data=state.data)


def does_not_ask_for_the_position(state: State, parameters: Parameters) -> State:
    """The sender goes on where it stopped: what was on its way is lost."""
    after = SYSTEM.perform("HearAnswer", state, parameters)
    return after._replace(written=state.written, acked=state.acked)


def acknowledges_what_is_not_delivered(state: State, parameters: Parameters) -> State:
    """What has come to the carrier, and not to the application: a cut loses it."""
    arrived = state.received + state.data.size()
    return SYSTEM.perform("Acknowledge", state._replace(received=arrived), parameters)._replace(received=state.received)


def counts_what_is_not_delivered(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Deliver", state, parameters)._replace(inbox=state.inbox)


def accepts_an_older_request(state: State, parameters: Parameters) -> State:
    """Without the number of the attempt, the newest to arrive counts."""
    require(state.late.number > 0)
    require(state.acceptor != "failed")
    after = SYSTEM.perform("AcceptLate", state._replace(accepted=state.late.number - 1), parameters)
    return after._replace(accepted=state.late.number)


def a_restarted_receiver_goes_on(state: State, parameters: Parameters) -> State:
    """It has nothing any more, and asks from the beginning."""
    after = SYSTEM.perform("Dial", state, parameters)
    return after._replace(request=Request(after.dialled, 0))


def a_restarted_sender_goes_on(state: State, parameters: Parameters) -> State:
    """It has sent nothing yet: its first message would count as the one that is due."""
    return SYSTEM.perform("Dial", state, parameters)._replace(sent=0, acked=0, written=0)


def a_stranger_goes_on(state: State, parameters: Parameters) -> State:
    """A request that the dialler never made is taken for its own."""
    require(state.acceptor != "failed")
    stranger = Request(state.dialled + 1, diallers_position(state, parameters))
    return SYSTEM.perform("AcceptLate", state._replace(late=stranger), parameters)


def reads_on_after_the_cut(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("CutDialled", state, parameters)._replace(data=state.data)


def forgets_what_it_has_sent(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Hear", state, parameters)._replace(acked=state.sent)


def returns_a_permit_before_it_acknowledges(state: State, parameters: Parameters) -> State:
    require(state.received - state.told >= parameters.every)
    after = SYSTEM.perform("ReturnPermit", state._replace(received=state.told), parameters)
    return after._replace(received=state.received)


def writes_nothing_again(state: State, parameters: Parameters) -> State:
    """What was written once is forgotten, whether it arrives or not."""
    after = SYSTEM.perform("WriteKept", state, parameters)
    return after._replace(acked=after.written, data=after.data if state.acceptor == "open" else Fifo())


def asks_for_the_message_before(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Dial", state, parameters)
    return after._replace(request=Request(after.dialled, diallers_position(state, parameters) - 1))


MISTAKES = (
    Mistake("Send", sends_a_message_more_than_it_has_permits, "Bounded", SENDER_DIALS, at_once="PermitsInLine"),
    Mistake("HearAnswer", does_not_ask_for_the_position, "NothingLost", SENDER_DIALS),
    Mistake("Accept", still_hears_the_older_connection, "NothingLost", SENDER_DIALS),
    Mistake("Acknowledge", acknowledges_what_is_not_delivered, "NothingInvented", TOGETHER),
    Mistake("Deliver", counts_what_is_not_delivered, "InOrder", SENDER_DIALS),
    Mistake("RefuseLate", accepts_an_older_request, "OneConnection", RECEIVER_DIALS),
    Mistake("Dial", a_restarted_receiver_goes_on, "NothingInvented", RECEIVER_DIALS),
    Mistake("Dial", a_restarted_sender_goes_on, "NothingInvented", SENDER_DIALS),
    Mistake("AcceptLate", a_stranger_goes_on, "OneConnection", RECEIVER_DIALS),
    Mistake("CutDialled", reads_on_after_the_cut, "NothingLost", RECEIVER_DIALS),
    Mistake("Hear", forgets_what_it_has_sent, "NothingInvented", TOGETHER),
    Mistake("ReturnPermit", returns_a_permit_before_it_acknowledges, "PermitsInLine", SENDER_DIALS),
    Mistake("WriteKept", writes_nothing_again, "NothingInvented", SENDER_DIALS),
    Mistake("Dial", asks_for_the_message_before, "TypeOK", RECEIVER_DIALS),
)
