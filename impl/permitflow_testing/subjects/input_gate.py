"""The gate: recorded runs as behaviours of ``InputGate``.

``judge_gate`` judges all inputs of a gate together.  One stream alone is judged as the only input of a gate: then the
model knows neither the others' share of the pool nor whether they had reached the barrier.

``permitflow_model.input_gate_trace`` says which steps an event is.
"""

from collections.abc import Sequence
from dataclasses import replace

from permitflow.flows.gate.core import GATE_ACTIONS, GateParameters
from permitflow.flows.recording import End
from permitflow.tracing.events import Event
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.input_gate import SYSTEM, data_here, valid_credit
from permitflow_model.input_gate_credit import Parameters, State, content_in
from permitflow_model.input_gate_trace import GateExplanation
from permitflow_model.kernel.replay import Replay, World, replay
from permitflow_testing.subjects import UNLIMITED, Explanation, Subject, require_both, stated

_CHECK_EVERY = 16
"""See ``Replayer``: invariants of all inputs cost more than the steps."""


def model_parameters(parameters: GateParameters) -> Parameters:
    """The specification's constants for a real gate, with numbers and offers without end."""
    return Parameters(
        inputs=parameters.inputs,
        exclusive=parameters.exclusive,
        floating=parameters.floating,
        backlog=UNLIMITED,
        epochs=0,
        skip=UNLIMITED,
        ends=True,
        losses=True,
    )


def judge_gate(
    events: Sequence[Event], parameters: GateParameters, inputs: Sequence[str], *, keep_path: bool = False
) -> Replay[World[State], Event]:
    """Are these events of one process, of both ends of all inputs, a behaviour of the specification?

    ``inputs`` are the names of the recorded streams; events of other streams are left out.  With ``keep_path`` the
    worlds have the model's steps that led to them.
    """
    names = {channel: name for name, channel in enumerate(inputs)}
    explanation = GateExplanation(model_parameters(parameters), names, keep_path=keep_path)
    logs = [[event for event in events if event.channel in names]]
    return replay(explanation, explanation.start(), logs, check_every=_CHECK_EVERY)


def _explanation(parameters: Parameters, ends: frozenset[End], keep_path: bool) -> Explanation:
    require_both(ends)
    return GateExplanation(parameters, {}, keep_path=keep_path)


def _parameters(channel: RecordedChannel) -> Parameters:
    return replace(model_parameters(stated(channel, GateParameters)), inputs=1, skip=0)


def _places(state: State) -> dict[str, int]:
    channel = state.channels.get(0)
    return {"credit": valid_credit(channel), "data": data_here(channel), "free": channel.free, "pool": state.pool}


def _in_words(state: State) -> str:
    """The variables of the only channel that differ from those of an idle one."""
    idle, channel = SYSTEM.initial(Parameters(inputs=1, exclusive=0, floating=0, backlog=1)), state.channels.get(0)
    pairs = zip(channel._fields, channel, idle.channels.get(0), strict=True)
    return ", ".join([f"pool {state.pool}", *(f"{name} {value}" for name, value, usual in pairs if value != usual)])


def _rows_of(event: Event) -> int:
    names = GATE_ACTIONS.actions[event.end][event.action]
    return event.arguments[names.index("data")] if "data" in names else 0


SUBJECT = Subject(
    table=GATE_ACTIONS,
    system=SYSTEM,
    parameters=_parameters,
    explanation=_explanation,
    rows_of=_rows_of,
    amount_of=_rows_of,
    consumes={"sender": "SendData", "receiver": "ConsumeData"},
    state_in_words=_in_words,
    places=_places,
    unit="rows of credit",
    place_in_words={
        "credit": "at the sender or on its way there",
        "data": "with data",
        "free": "to be granted",
        "pool": "in the pool",
    },
    waiting=lambda state: [1] * content_in(state.channels.get(0).waiting).data,
)
