"""What each action of a stream's life changes, and where it is possible."""

from collections.abc import Callable, Sequence

from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.stream_life import (
    OWN_TOKEN,
    Downstream,
    Frame,
    Life,
    Parameters,
    State,
    Upstream,
    Word,
    is_last,
    is_over,
)
from permitflow_proofs.kernel.frame import Frame as ActionFrame
from permitflow_proofs.kernel.frame import is_same_part, is_same_state


def _reads(state: State, parameters: Parameters, life: Life) -> bool:
    """Does an end read what is written for it?"""
    return not is_over(life) and not (state.is_cut and not parameters.resumes)


def _behind(frames: Queue[Frame], is_read: bool, words: Sequence[Word], count: int) -> Queue[Frame]:
    """A line with these words behind it, if they are read; data are that many."""
    for word in words if is_read else ():
        frames = frames.push(Frame(word, count if word == "messages" or word == "permits" else 0))
    return frames


def _down_has(before: State, after: State, parameters: Parameters, *words: Word, count: int = 0) -> bool:
    """The upstream has written this, and no more."""
    written = _behind(before.to_downstream, _reads(before, parameters, before.downstream.life), words, count)
    return is_same_part(written, after.to_downstream)


def _up_has(before: State, after: State, parameters: Parameters, *words: Word, count: int = 0) -> bool:
    written = _behind(before.to_upstream, _reads(before, parameters, before.upstream.life), words, count)
    return is_same_part(written, after.to_upstream)


def _close(is_dialler: bool) -> tuple[Word, ...]:
    return ("close",) if is_dialler else ()


def _last(is_dialler: bool, life: Life) -> Word:
    """What an end says at last."""
    return "gone" if is_dialler else "ok" if life == "closed" else "error"


def is_suspended(state: State, parameters: Parameters) -> bool:
    """Is all that is on its way kept for another connection?"""
    return parameters.resumes and state.is_cut


def _upstream_is_over(before: State, after: State, parameters: Parameters) -> bool:
    """It has said its last word, and nothing else is kept for a downstream that may come again."""
    life = after.upstream.life
    last = _last(parameters.upstream_dials, life)
    if not after.to_upstream.is_empty() or after.upstream.waiting != 0:
        return False
    if life == "failed" and is_suspended(before, parameters) and not is_over(before.downstream.life):
        return is_same_part(Fifo([Frame(last, 0)]), after.to_downstream)
    return _down_has(before, after, parameters, last)


def _downstream_is_over(before: State, after: State, parameters: Parameters, *words: Word, count: int = 0) -> bool:
    """Likewise, behind these words."""
    life = after.downstream.life
    last = _last(not parameters.upstream_dials, life)
    if not after.to_downstream.is_empty():
        return False
    if life == "failed" and is_suspended(before, parameters) and not is_over(before.upstream.life):
        return is_same_part(Fifo([Frame(last, 0)]), after.to_upstream)
    return _up_has(before, after, parameters, *words, last, count=count)


def _agrees(before: State, after: State, parameters: Parameters) -> bool:
    if parameters.upstream_dials:
        acceptor, dialler = after.downstream.life, after.upstream.life == before.upstream.life
        says = _up_has(before, after, parameters, "agreement") and _down_has(before, after, parameters)
    else:
        acceptor, dialler = after.upstream.life, after.downstream.life == before.downstream.life
        says = _down_has(before, after, parameters, "agreement") and _up_has(before, after, parameters)
    return acceptor == "open" and dialler and says


def _offers(before: State, after: State, parameters: Parameters) -> bool:
    """It leaves if there is a permit, and so none waits."""
    old, new = before.upstream, after.upstream
    if old.sent - old.returned < parameters.window:
        leaves = new.sent == old.sent + 1 and new.waiting == 0
        return leaves and _down_has(before, after, parameters, "messages", count=1)
    return new.sent == old.sent and new.waiting == old.waiting + 1 and _down_has(before, after, parameters)


def _ends(before: State, after: State, parameters: Parameters) -> bool:
    if before.upstream.waiting > 0:
        return after.upstream.life == "open" and _down_has(before, after, parameters)
    close = _close(parameters.upstream_dials)
    return after.upstream.life == "ended" and _down_has(before, after, parameters, "end", *close)


def _says(word: Word) -> Callable[[State, State, Parameters], bool]:
    """This is the upstream's last frame, and nothing waits."""

    def says(before: State, after: State, parameters: Parameters) -> bool:
        close = _close(parameters.upstream_dials)
        return after.upstream.waiting == 0 and _down_has(before, after, parameters, word, *close)

    return says


def _answers_behind(before: State, after: State, parameters: Parameters, *words: Word, count: int = 0) -> bool:
    """Behind these words the downstream answers End, if it has one, and nothing is in its inbox."""
    old, new = before.downstream, after.downstream
    if new.inbox != 0 or old.life != "ended" or old.end != "end" or old.has_answered:
        is_same = new.life == old.life and new.has_answered == old.has_answered
        says = _up_has(before, after, parameters, *words, count=count)
        return is_same and says and _down_has(before, after, parameters)
    if not new.has_answered:
        return False
    answer: Word = "cancelled" if new.is_cancelled else "consumed"
    said = (*words, answer, *_close(not parameters.upstream_dials))
    if old.has_heard_close:
        return new.life == "closed" and _downstream_is_over(before, after, parameters, *said, count=count)
    says = _up_has(before, after, parameters, *said, count=count)
    return new.life == "ended" and says and _down_has(before, after, parameters)


def _consumes(before: State, after: State, parameters: Parameters) -> bool:
    old, new = before.downstream, after.downstream
    if old.life == "open" or old.life == "ended":
        return _answers_behind(before, after, parameters, "permits", count=1)
    is_same = new.life == old.life and new.has_answered == old.has_answered
    return is_same and _up_has(before, after, parameters) and _down_has(before, after, parameters)


def _cancels(before: State, after: State, parameters: Parameters) -> bool:
    discarded = before.downstream.inbox
    if after.downstream.inbox != 0:
        return False
    if discarded > 0:
        return _answers_behind(before, after, parameters, "cancel", "permits", count=discarded)
    return _answers_behind(before, after, parameters, "cancel")


def _breaks_off(before: State, after: State, parameters: Parameters) -> bool:
    said: tuple[Word, ...] = ("failure", *_close(not parameters.upstream_dials))
    if before.downstream.has_heard_close:
        return after.downstream.life == "failed" and _downstream_is_over(before, after, parameters, *said)
    says = _up_has(before, after, parameters, *said) and _down_has(before, after, parameters)
    return after.downstream.life == "breaking" and says


def _leaves(before: State, after: State, parameters: Parameters) -> bool:
    return after.downstream.inbox == 0 and _downstream_is_over(before, after, parameters)


def _is_cut(before: State, after: State, parameters: Parameters) -> bool:
    if parameters.resumes:
        return is_same_state(before[2:4], after[2:4])
    ends = ((before.downstream, after.to_downstream), (before.upstream, after.to_upstream))
    gone = Fifo([Frame("gone", 0)])
    return all(is_same_part(Fifo() if is_over(end.life) else gone, line) for end, line in ends)


def _closes_with(life: Life, word: Word) -> Life:
    """What an end becomes that hears this last word."""
    return "closed" if life == "ended" and (word == "close" or word == "ok") else "failed"


def _upstream_hears(before: State, after: State, parameters: Parameters) -> bool:
    one, frame, rest = before.upstream, before.to_upstream.head(), before.to_upstream.without_head()
    word, life = frame.word, one.life
    if is_last(word):
        over = one._replace(life=_closes_with(life, word), waiting=0)
        return is_same_state(over, after.upstream) and _upstream_is_over(before, after, parameters)
    if not is_same_part(rest, after.to_upstream):
        return False
    heard = before._replace(upstream=_upstream_with(before, parameters))
    if not is_same_state(heard.upstream, after.upstream):
        return False
    words: tuple[Word, ...] = ()
    if word == "failure" and life != "breaking":
        words = () if life == "ended" else _close(parameters.upstream_dials)
    elif life == "open" and after.upstream.life == "ended":
        words = ("end", *_close(parameters.upstream_dials))
    left = after.upstream.sent - one.sent
    return _down_has(before, after, parameters, *(("messages",) if left > 0 else ()), *words, count=left)


def _upstream_with(before: State, parameters: Parameters) -> Upstream:
    """The upstream that has heard what comes first, which is not the last word."""
    one, frame = before.upstream, before.to_upstream.head()
    word, life = frame.word, one.life
    if life == "breaking":
        return one
    if word == "request":
        return one._replace(life="deciding")
    if word == "agreement":
        return one._replace(life="open")
    if word == "failure":
        return one._replace(life="broken", waiting=0)
    if word == "consumed" or word == "cancelled":
        return one._replace(outcome="consumed" if word == "consumed" else "cancelled")
    if word == "cancel":
        if life == "open":
            return one._replace(life="ended", waiting=0, has_ended=True, outcome="cancelled")
        return one._replace(outcome="cancelled") if one.has_ended else one
    returned = one.returned + frame.number
    if life != "open":
        return one._replace(returned=returned)
    room = parameters.window - one.sent + returned
    if one.waiting > room:
        return one._replace(returned=returned, sent=one.sent + room, waiting=one.waiting - room)
    ended: Life = "ended" if one.has_ended else "open"
    return one._replace(returned=returned, sent=one.sent + one.waiting, waiting=0, life=ended)


def _downstream_hears(before: State, after: State, parameters: Parameters) -> bool:
    one, frame, rest = before.downstream, before.to_downstream.head(), before.to_downstream.without_head()
    word, life = frame.word, one.life
    has_closed = one.has_answered or one.end == "abort"
    if word == "close" and life == "ended" and not has_closed:
        is_heard = is_same_state(one._replace(has_heard_close=True), after.downstream)
        return is_heard and is_same_part(rest, after.to_downstream) and _up_has(before, after, parameters)
    if is_last(word):
        is_told = is_same_state(one._replace(life=_closes_with(life, word)), after.downstream)
        return is_told and _downstream_is_over(before, after, parameters)
    if not is_same_part(rest, after.to_downstream):
        return False
    heard, words = _downstream_with(before, parameters)
    count = frame.number if word == "messages" else 0
    return is_same_state(heard, after.downstream) and _up_has(before, after, parameters, *words, count=count)


def _downstream_with(before: State, parameters: Parameters) -> tuple[Downstream, tuple[Word, ...]]:
    """The downstream that has heard what comes first, which is not the last word, and what it says."""
    one, frame = before.downstream, before.to_downstream.head()
    word, close = frame.word, _close(not parameters.upstream_dials)
    if one.life == "breaking":
        return one, ()
    if word == "request":
        return one._replace(life="deciding"), ()
    if word == "agreement":
        return one._replace(life="open"), ()
    if word == "messages":
        came = one._replace(came=one.came + frame.number)
        return (came, ("permits",)) if one.is_cancelled else (came._replace(inbox=one.inbox + frame.number), ())
    if word == "end":
        if one.inbox > 0:
            return one._replace(life="ended", end="end"), ()
        answer: Word = "cancelled" if one.is_cancelled else "consumed"
        return one._replace(life="ended", end="end", has_answered=True), (answer, *close)
    if word == "abort":
        return one._replace(life="ended", end="abort", inbox=0), close
    has_closed = one.has_answered or one.end == "abort"
    return one._replace(life="broken"), () if has_closed else close


_BOTH = dict.fromkeys(("to_downstream", "to_upstream"))
_IS_OVER = "nothing is on its way to it; its last word is, and of what was kept for another connection only that"


def _owes(one: Downstream) -> bool:
    return one.life == "open" or (one.life == "ended" and one.end == "end" and not one.has_answered)


def _gives_up(life: Callable[[State], Life]) -> Callable[[State, Parameters], bool]:
    return lambda state, parameters: is_suspended(state, parameters) and not is_over(life(state))


def _upstream_life(state: State) -> Life:
    return state.upstream.life


def _downstream_life(state: State) -> Life:
    return state.downstream.life


FRAMES: tuple[ActionFrame[State, Parameters], ...] = (
    ActionFrame(
        "Done",
        when=lambda state, _: (
            is_over(state.upstream.life) and is_over(state.downstream.life) and state.downstream.inbox == 0
        ),
        possible="where both ends are over, and the inbox is empty",
    ),
    ActionFrame(
        "Agree",
        {**dict.fromkeys(("upstream.life", "downstream.life")), **_BOTH},
        _agrees,
        "the acceptor is open, and the agreement on its way",
        when=lambda state, parameters: (
            (state.downstream.life if parameters.upstream_dials else state.upstream.life) == "deciding"
        ),
        possible="for an acceptor that has heard the request",
    ),
    ActionFrame(
        "Offer",
        {"upstream.offered": +1, **dict.fromkeys(("upstream.waiting", "upstream.sent", "to_downstream"))},
        _offers,
        "it leaves with a permit, else it waits",
        when=lambda state, parameters: (
            state.upstream.life == "open" and not state.upstream.has_ended and state.upstream.offered < parameters.total
        ),
        possible="for an open upstream before the end, up to Total",
    ),
    ActionFrame(
        "EndStream",
        {"upstream.has_ended": True, "upstream.life": None, "to_downstream": None},
        _ends,
        "if nothing waits, it has ended, and End is on its way",
        when=lambda state, _: state.upstream.life == "open" and not state.upstream.has_ended,
        possible="for an open upstream, once",
    ),
    ActionFrame(
        "Abort",
        {
            **{"upstream.life": "ended", "upstream.has_ended": False},
            **dict.fromkeys(("upstream.waiting", "to_downstream")),
        },
        _says("abort"),
        "nothing waits; Abort is on its way",
        when=lambda state, _: state.upstream.life == "open",
        possible="for an open upstream",
    ),
    ActionFrame(
        "Consume",
        {
            **{"downstream.inbox": -1, "downstream.consumed": +1},
            **dict.fromkeys(("downstream.life", "downstream.has_answered")),
            **_BOTH,
        },
        _consumes,
        "if it is open or has ended, a permit is on its way, and the answer to End behind the last one; if the close "
        "was heard, it is closed then",
        when=lambda state, _: state.downstream.inbox > 0,
        possible="for a message in the inbox",
    ),
    ActionFrame(
        "Cancel",
        {
            "downstream.is_cancelled": True,
            **dict.fromkeys(("downstream.inbox", "downstream.life", "downstream.has_answered")),
            **_BOTH,
        },
        _cancels,
        "the inbox is empty; Cancel and its permits are on their way, and the answer, if End has come",
        when=lambda state, _: not state.downstream.is_cancelled and _owes(state.downstream),
        possible="once, until End is answered",
    ),
    ActionFrame(
        "BreakOffUpstream",
        {"upstream.life": "breaking", "upstream.waiting": None, "to_downstream": None},
        _says("failure"),
        "nothing waits; Failure is on its way",
        when=lambda state, parameters: (
            parameters.faults
            and (state.upstream.life == "open" or (state.upstream.life == "asking" and parameters.upstream_dials))
        ),
        possible="for an upstream that is open or asks",
    ),
    ActionFrame(
        "BreakOffDownstream",
        {"downstream.life": None, **_BOTH},
        _breaks_off,
        "Failure is on its way; it is breaking, or has failed, if the close was heard",
        when=lambda state, parameters: (
            parameters.faults
            and (_owes(state.downstream) or (state.downstream.life == "asking" and not parameters.upstream_dials))
        ),
        possible="for a downstream that asks or has not answered End",
    ),
    ActionFrame(
        "LeaveUpstream",
        {"upstream.life": "failed", "upstream.waiting": None, **_BOTH},
        _upstream_is_over,
        _IS_OVER,
        when=lambda state, parameters: parameters.faults and not is_over(state.upstream.life),
        possible="until it is over",
    ),
    ActionFrame(
        "LeaveDownstream",
        {"downstream.life": "failed", "downstream.inbox": None, **_BOTH},
        _leaves,
        f"its inbox is empty; {_IS_OVER}",
        when=lambda state, parameters: parameters.faults and not is_over(state.downstream.life),
        possible="until it is over",
    ),
    ActionFrame(
        "Cut",
        {"is_cut": True, **_BOTH},
        _is_cut,
        "what is on its way is kept, or only the end of the connection comes to who is not over",
        when=lambda state, parameters: (
            parameters.faults
            and not state.is_cut
            and not (is_over(state.upstream.life) and is_over(state.downstream.life))
        ),
        possible="while there is a connection, and not both are over",
    ),
    ActionFrame(
        "ComeAgain",
        {"is_cut": False},
        when=lambda state, parameters, token: (
            is_suspended(state, parameters)
            and token == OWN_TOKEN
            and not is_over(state.upstream.life if parameters.upstream_dials else state.downstream.life)
        ),
        possible="for a dialler that is not over, with the stream's own token",
    ),
    ActionFrame(
        "GiveUpUpstream",
        {"upstream.life": "failed", "upstream.waiting": None, **_BOTH},
        _upstream_is_over,
        _IS_OVER,
        when=_gives_up(_upstream_life),
        possible="while the connection of a stream that resumes is lost, until it is over",
    ),
    ActionFrame(
        "GiveUpDownstream",
        {"downstream.life": "failed", **_BOTH},
        _downstream_is_over,
        _IS_OVER,
        when=_gives_up(_downstream_life),
        possible="likewise",
    ),
    ActionFrame(
        "LosePatienceUpstream",
        {"upstream.life": "failed", **_BOTH},
        _upstream_is_over,
        _IS_OVER,
        when=lambda state, _: state.upstream.life == "breaking",
        possible="for who has broken off",
    ),
    ActionFrame(
        "LosePatienceDownstream",
        {"downstream.life": "failed", **_BOTH},
        _downstream_is_over,
        _IS_OVER,
        when=lambda state, _: state.downstream.life == "breaking",
        possible="likewise",
    ),
    ActionFrame(
        "HearUpstream",
        {"upstream": None, **_BOTH},
        _upstream_hears,
        "a request or an agreement: it decides, or is open; permits return, and what waits leaves, End behind it; "
        "Cancel: nothing waits, and End leaves; an answer: it is told so; Failure: it is broken, and closes its half; "
        "a last word: it is over, without an error if it has ended, and the word is a close or ok; who is breaking "
        "hears no other",
        when=lambda state, parameters: not is_suspended(state, parameters) and not state.to_upstream.is_empty(),
        possible="for what was written first, while there is a connection",
    ),
    ActionFrame(
        "HearDownstream",
        {"downstream": None, **_BOTH},
        _downstream_hears,
        "a request or an agreement: likewise; messages come into the inbox, or their permits return, if it is "
        "cancelled; End is answered if the inbox is empty; Abort empties it; Failure: it is broken, and closes its "
        "half; a close waits for the answer; another last word: likewise",
        when=lambda state, parameters: not is_suspended(state, parameters) and not state.to_downstream.is_empty(),
        possible="likewise",
    ),
)
"""What each action changes."""
