"""Mistakes on purpose in ``stream_life``."""

from dataclasses import replace

from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_model.stream_life import SYSTEM, Frame, Parameters, State, is_over

PUT = Parameters(window=1, total=2, upstream_dials=True)
GET = Parameters(window=2, total=2, upstream_dials=False)
RESUMES = Parameters(window=1, total=1, upstream_dials=True, resumes=True)


# The upstream.


def goes_on_behind_its_end(state: State, parameters: Parameters) -> State:
    upstream = state.upstream
    require(upstream.life == "open" or upstream.life == "ended")
    opened = state._replace(upstream=upstream._replace(life="open", has_ended=False))
    after = SYSTEM.perform("Offer", opened, parameters)
    return after._replace(upstream=after.upstream._replace(life=upstream.life, has_ended=upstream.has_ended))


def sends_without_a_permit(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Offer", state, replace(parameters, window=parameters.window + 1))


def ends_before_what_waits(state: State, parameters: Parameters) -> State:
    """End overtakes it."""
    after = SYSTEM.perform("EndStream", state._replace(upstream=state.upstream._replace(waiting=0)), parameters)
    return after._replace(upstream=after.upstream._replace(waiting=state.upstream.waiting))


def aborts_and_leaves_the_end_in_force(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Abort", state, parameters)
    return after._replace(upstream=after.upstream._replace(has_ended=state.upstream.has_ended))


def takes_a_closed_half_for_the_end(state: State, parameters: Parameters) -> State:
    """The other half closes without an answer, which is an error."""
    after = SYSTEM.perform("HearUpstream", state, parameters)
    word = state.to_upstream.head().word
    return _closed(after) if word == "close" or word == "ok" else after


def takes_a_lost_connection_for_the_status(state: State, parameters: Parameters) -> State:
    """The exchange may have failed, and said so: its word was lost."""
    after = SYSTEM.perform("HearUpstream", state, parameters)
    is_lost = state.to_upstream.head().word == "gone" and state.upstream.life == "ended"
    return _closed(after) if is_lost else after


def _closed(state: State) -> State:
    return state._replace(upstream=state.upstream._replace(life="closed"))


def hears_a_failure_and_does_not_close(state: State, parameters: Parameters) -> State:
    """Both wait: the acceptor with its status for the close, the dialler for the status."""
    after = SYSTEM.perform("HearUpstream", state, parameters)
    return after._replace(to_downstream=state.to_downstream) if state.to_upstream.head().word == "failure" else after


def does_not_heed_a_cancel(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("HearUpstream", state, parameters)
    is_cancel = state.to_upstream.head().word == "cancel"
    return state._replace(to_upstream=after.to_upstream) if is_cancel else after


def leaves_without_a_word(state: State, parameters: Parameters) -> State:
    """An acceptor hangs up, and does not say how the stream has ended."""
    after = SYSTEM.perform("LeaveUpstream", state, parameters)
    return after if parameters.upstream_dials else after._replace(to_downstream=state.to_downstream)


# The downstream.


def returns_permits_on_arrival(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("HearDownstream", state, parameters)
    came = after.downstream.came - state.downstream.came
    if came == 0 or is_over(after.upstream.life):
        return after
    return after._replace(to_upstream=after.to_upstream.push(Frame("permits", came)))


def answers_what_is_not_consumed(state: State, parameters: Parameters) -> State:
    """A producer would be told that rows were consumed which are lost with their consumer."""
    after = SYSTEM.perform("HearDownstream", state, parameters)
    if state.to_downstream.head().word != "end" or state.downstream.life == "breaking":
        return after
    read = state._replace(downstream=state.downstream._replace(inbox=0))
    after = SYSTEM.perform("HearDownstream", read, parameters)
    return after._replace(downstream=after.downstream._replace(inbox=state.downstream.inbox))


def acknowledges_what_it_leaves(state: State, parameters: Parameters) -> State:
    """A consumer that is closed answers the End, though messages are still in its inbox."""
    one = state.downstream
    is_asked = one.life == "ended" and one.end == "end" and not one.has_answered
    if is_asked and not is_over(state.upstream.life) and not state.is_cut:
        state = state._replace(to_upstream=state.to_upstream.push(Frame("consumed", 0)))
    return SYSTEM.perform("LeaveDownstream", state, parameters)


def answers_that_all_was_consumed(state: State, parameters: Parameters) -> State:
    """What came behind Cancel was discarded."""
    after = SYSTEM.perform("HearDownstream", state, parameters)
    if state.to_downstream.head().word != "end":
        return after
    read = state._replace(downstream=state.downstream._replace(is_cancelled=False))
    after = SYSTEM.perform("HearDownstream", read, parameters)
    return after._replace(downstream=after.downstream._replace(is_cancelled=state.downstream.is_cancelled))


def consumes_the_last_and_does_not_answer(state: State, parameters: Parameters) -> State:
    """It looks at its inbox only when the End comes."""
    unasked = state._replace(downstream=state.downstream._replace(end="none"))
    after = SYSTEM.perform("Consume", unasked, parameters)
    return after._replace(downstream=after.downstream._replace(end=state.downstream.end))


def hands_over_what_comes_behind_a_cancel(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("HearDownstream", state, parameters)
    if state.to_downstream.head().word != "messages" or not state.downstream.is_cancelled:
        return after
    return after._replace(downstream=after.downstream._replace(inbox=1), to_upstream=state.to_upstream)


def keeps_what_was_aborted(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("HearDownstream", state, parameters)
    is_aborted = state.to_downstream.head().word == "abort" and after.downstream.end == "abort"
    return after._replace(downstream=after.downstream._replace(inbox=state.downstream.inbox)) if is_aborted else after


def keeps_the_permits_of_what_it_discards(state: State, parameters: Parameters) -> State:
    """What was in the inbox when it was cancelled."""
    return SYSTEM.perform("Cancel", state._replace(downstream=state.downstream._replace(inbox=0)), parameters)


# The connection.


def loses_frames_with_the_connection(state: State, parameters: Parameters) -> State:
    """Of a stream that goes on over another one."""
    after = SYSTEM.perform("Cut", state, parameters)
    return after._replace(to_downstream=Fifo()) if parameters.resumes else after


def consumes_what_is_not_there(state: State, parameters: Parameters) -> State:
    inbox = state.downstream.inbox
    one_more = state._replace(downstream=state.downstream._replace(inbox=inbox + 1))
    after = SYSTEM.perform("Consume", one_more, parameters)
    return after._replace(downstream=after.downstream._replace(inbox=inbox - 1))


MISTAKES = (
    Mistake("Offer", goes_on_behind_its_end, "Expected", GET, at_once="Lines"),
    Mistake("Offer", sends_without_a_permit, "Bounded", PUT, at_once="Numbers"),
    Mistake("HearDownstream", returns_permits_on_arrival, "NothingInvented", PUT, at_once="Numbers"),
    Mistake("EndStream", ends_before_what_waits, "EndIsTrue", PUT, at_once="Numbers"),
    Mistake("HearDownstream", answers_what_is_not_consumed, "OutcomeIsTrue", PUT, at_once="Numbers"),
    Mistake("HearDownstream", answers_that_all_was_consumed, "OutcomeIsTrue", PUT, at_once="Numbers"),
    Mistake("LeaveDownstream", acknowledges_what_it_leaves, "OutcomeIsTrue", PUT, at_once="Numbers"),
    Mistake("Abort", aborts_and_leaves_the_end_in_force, "NoEndOfAborted", PUT, at_once="Numbers"),
    Mistake("HearUpstream", takes_a_closed_half_for_the_end, "ClosedTogether", GET, at_once="Numbers"),
    Mistake("HearDownstream", keeps_what_was_aborted, "ClosedTogether", PUT, at_once="Numbers"),
    Mistake("Cancel", keeps_the_permits_of_what_it_discards, "ClosedTogether", PUT, at_once="Numbers"),
    Mistake("HearUpstream", takes_a_lost_connection_for_the_status, "AcceptorLast", PUT, at_once="Numbers"),
    Mistake("LeaveUpstream", leaves_without_a_word, "Noticed", GET, at_once="Lines"),
    Mistake("HearUpstream", hears_a_failure_and_does_not_close, "WaitsForApplication", PUT, at_once="Lines"),
    Mistake("Cut", loses_frames_with_the_connection, "WaitsForApplication", RESUMES, at_once="Lines"),
    Mistake("Consume", consumes_the_last_and_does_not_answer, "WaitsForApplication", PUT, at_once="Numbers"),
    Mistake("HearDownstream", hands_over_what_comes_behind_a_cancel, "CancelHeeded", PUT, at_once="Numbers"),
    Mistake("HearUpstream", does_not_heed_a_cancel, "CancelHeeded", PUT, at_once="Numbers"),
    Mistake("Consume", consumes_what_is_not_there, "TypeOK", PUT, at_once="Numbers"),
)
