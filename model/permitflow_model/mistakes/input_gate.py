"""Mistakes on purpose in ``input_gate``."""

from typing import NoReturn

from permitflow_model.input_gate import SYSTEM
from permitflow_model.input_gate_alignment import freed, is_awaited_no_more, is_blocked, is_pending, resumed
from permitflow_model.input_gate_credit import Channel, Parameters, State, content_in, with_changes
from permitflow_model.kernel.system import Disabled, require
from permitflow_model.mistakes import Mistake

ABORTS = Parameters(inputs=2, exclusive=0, floating=1, backlog=1, epochs=3, skip=1, ends=True, losses=True)
REVOCATION = Parameters(inputs=2, exclusive=1, floating=0, backlog=1, revoke=True)


# Without one of the three rules, as in InputGateMistakes.tla.


def send_barrier_and_go_on(state: State, parameters: Parameters, name: int) -> State:
    """A sender goes on behind its barrier; where that takes back all credit, none is left but what crosses it."""
    after = SYSTEM.perform("SendBarrier", state, parameters, name)
    credit = 0 if parameters.revoke else state.channels.get(name).credit
    return with_changes(after, name, stopped=False, credit=credit)


def align_silently(state: State, parameters: Parameters) -> State:
    """No sender is told, because none has stopped."""
    return SYSTEM.perform("Align", state, parameters)._replace(channels=state.channels.map(freed_silently))


def freed_silently(channel: Channel) -> Channel:
    return freed(channel)._replace(grants=channel.grants)


def deliver_and_keep(state: State, parameters: Parameters, name: int) -> State:
    """A barrier takes back nothing."""
    channel = state.channels.get(name)
    after = SYSTEM.perform("Deliver", state, parameters, name)._replace(pool=state.pool)
    return with_changes(after, name, released=channel.released, free=channel.free, borrowed=channel.borrowed)


def announce_nothing(_state: State, _parameters: Parameters, _name: int) -> NoReturn:
    """A sender without credit cannot say that it has data."""
    raise Disabled


# Others.


def returns_a_buffer_twice(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("ConsumeData", state, parameters, name)
    return with_changes(after, name, free=after.channels.get(name).free + 1)


def keeps_credit_that_was_taken_back(state: State, parameters: Parameters, name: int) -> State:
    credit = state.channels.get(name).credit
    after = SYSTEM.perform("ResumeConsumption", state, parameters, name)
    return with_changes(after, name, credit=max(credit, after.channels.get(name).credit))


def aligns_with_the_first_barrier(state: State, parameters: Parameters) -> State:
    require(is_blocked(state.channels.get(0)))
    return state._replace(channels=state.channels.map(resumed), epoch=state.epoch + 1)


def resumes_with_any_credit(state: State, parameters: Parameters, name: int) -> State:
    """Available and resumed are two things."""
    return with_changes(SYSTEM.perform("AddCredit", state, parameters, name), name, stopped=False)


def releases_and_keeps(state: State, parameters: Parameters, name: int) -> State:
    borrowed = state.channels.get(name).borrowed
    return with_changes(SYSTEM.perform("Deliver", state, parameters, name), name, borrowed=borrowed)


def borrows_while_released(state: State, parameters: Parameters, name: int) -> State:
    released = state.channels.get(name).released
    after = SYSTEM.perform("Borrow", with_changes(state, name, released=False), parameters, name)
    return with_changes(after, name, released=released)


def borrows_more_than_the_backlog(state: State, parameters: Parameters, name: int) -> State:
    required = state.channels.get(name).required
    after = SYSTEM.perform("Borrow", with_changes(state, name, required=required + 1), parameters, name)
    return with_changes(after, name, required=required)


def forgets_the_backlog(state: State, parameters: Parameters, name: int) -> State:
    """Nobody borrows for what waits."""
    return with_changes(SYSTEM.perform("Deliver", state, parameters, name), name, required=0)


def tells_too_much(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("SendData", state, parameters, name)
    return with_changes(after, name, announced=content_in(after.channels.get(name).waiting).data + 1)


def sends_without_credit(state: State, parameters: Parameters, name: int) -> State:
    credit = state.channels.get(name).credit
    return with_changes(
        SYSTEM.perform("SendData", with_changes(state, name, credit=1), parameters, name), name, credit=credit
    )


def without_loan(channel: Channel) -> Channel:
    return resumed(channel)._replace(borrowed=0)


def aligns_and_forgets_loans(state: State, parameters: Parameters) -> State:
    require(state.channels.every(is_blocked))
    require(is_pending(state))
    return state._replace(channels=state.channels.map(without_loan))


def resumes_all(state: State, parameters: Parameters) -> State:
    require(state.channels.every(is_awaited_no_more))
    require(is_pending(state))
    return state._replace(channels=state.channels.map(resumed), epoch=state.epoch + 1)


def opened_only(channel: Channel) -> Channel:
    return channel._replace(blocked=False)


def does_not_resume(state: State, parameters: Parameters, name: int) -> State:
    return state._replace(channels=frees_nobody(state, parameters, name).channels.map(opened_only))


def frees_nobody(state: State, parameters: Parameters, name: int) -> State:
    """The newer barrier is consumed, and nobody is freed."""
    after = SYSTEM.perform("ConsumeNewerBarrier", state, parameters, name)
    return state._replace(channels=state.channels.put(name, after.channels.get(name)), epoch=after.epoch)


def blocks_for_an_older_barrier(state: State, parameters: Parameters, name: int) -> State:
    SYSTEM.perform("ConsumeOlderBarrier", state, parameters, name)
    number = state.channels.get(name).inbox.head().epoch
    return SYSTEM.perform("ConsumeBarrier", state._replace(epoch=number), parameters, name)._replace(epoch=state.epoch)


def ends_before_its_data(state: State, parameters: Parameters, name: int) -> State:
    channel = state.channels.get(name)
    require(channel.closed and not channel.over and not channel.stopped and not channel.blocked)
    over = with_changes(state, name, over=True, borrowed=0, free=0)
    return over._replace(pool=state.pool + channel.borrowed)


def is_lost_with_loans(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("LoseInput", state, parameters, name)._replace(pool=state.pool)


def is_lost_alone(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("LoseInput", state, parameters, name)
    return after._replace(channels=state.channels.put(name, after.channels.get(name)))


def lends_what_the_pool_has_not(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("Borrow", state._replace(pool=state.pool + 1), parameters, name)
    return after._replace(pool=state.pool - 1)


MISTAKES = (
    Mistake("ConsumeData", returns_a_buffer_twice, "Conservation", ABORTS),
    Mistake("ResumeConsumption", keeps_credit_that_was_taken_back, "Conservation", REVOCATION),
    Mistake("Deliver", releases_and_keeps, "Conservation"),
    Mistake("SendData", sends_without_credit, "Conservation", ABORTS),
    Mistake("Align", aligns_and_forgets_loans, "NeverStuck", ABORTS, at_once="Conservation"),
    Mistake("AddCredit", resumes_with_any_credit, "StoppedByBarrier", REVOCATION),
    Mistake("SendBarrier", send_barrier_and_go_on, "StoppedByBarrier", ABORTS),
    Mistake("Align", align_silently, "StoppedByBarrier", ABORTS),
    Mistake("Deliver", deliver_and_keep, "ReleasedByBarrier", ABORTS),
    Mistake("AnnounceBacklog", announce_nothing, "NeverStuck", ABORTS),
    Mistake("Align", aligns_with_the_first_barrier, "StoppedByBarrier", ABORTS),
    Mistake("Borrow", borrows_while_released, "ReleasedByBarrier"),
    Mistake("Borrow", borrows_more_than_the_backlog, "NothingHoarded", ABORTS),
    Mistake("Deliver", forgets_the_backlog, "BacklogKnown", ABORTS),
    Mistake("SendData", tells_too_much, "BacklogKnown", ABORTS),
    Mistake("Align", resumes_all, "StoppedByBarrier", ABORTS),
    Mistake("ConsumeNewerBarrier", does_not_resume, "StoppedByBarrier", ABORTS),
    Mistake("ConsumeEnd", ends_before_its_data, "NothingAfterEnd", ABORTS),
    Mistake("LoseInput", is_lost_with_loans, "Conservation", ABORTS),
    Mistake("LoseInput", is_lost_alone, "LossFrees", ABORTS),
    Mistake("Align", aligns_with_the_first_barrier, "InEpoch", ABORTS),
    Mistake("ConsumeNewerBarrier", frees_nobody, "InEpoch", ABORTS),
    Mistake("ConsumeOlderBarrier", blocks_for_an_older_barrier, "InEpoch", ABORTS),
    Mistake("Borrow", lends_what_the_pool_has_not, "TypeOK", ABORTS),
)
