"""Can a gate with several inputs get stuck?  Theorems decide where they can; otherwise a run of the model does.

The rules and the theorems: docs/protocols/gate.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from permitflow_model.input_gate import SYSTEM
from permitflow_model.input_gate_credit import Parameters, State
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Step, System
from permitflow_model.mistakes import mistaken, mistakes_in

Move = tuple[str, int]
"""An action, and the input that performs it."""

_BACKLOG_OF_ONE_INPUT = 3
"""The most data that wait while a gate with a single input is explored."""


class Rules(NamedTuple):
    """Which of the three rules a gate keeps."""

    stop: bool
    release: bool
    announce: bool

    @property
    def system(self) -> System[State, Parameters]:
        """The model, with a mistake for each rule that is not kept."""
        instead = {
            "SendBarrierAndGoOn": self.stop,
            "AlignSilently": self.stop,
            "DeliverAndKeep": self.release,
            "AnnounceNothing": self.announce,
        }
        return mistaken(SYSTEM, *(mistakes_in("InputGate")[name] for name, is_kept in instead.items() if not is_kept))


@dataclass(frozen=True, kw_only=True)
class GateFinding:
    """The verdict about a gate."""

    parameters: Parameters
    """The parameters that were explored, or those of the run."""
    rules: Rules
    verdict: Literal["live", "deadlock", "buffers out of nothing"]
    reason: str
    how: Literal["proved", "explored", "run"]
    theorem: str = ""
    """The theorem that decides, if one does."""
    advice: str = ""
    steps: tuple[Step[State], ...] = ()
    """The moves of the run into the failure."""
    is_shortest: bool = True
    """Is it known that no run is shorter?  That of a larger pool is not known."""


def check_gate(
    *, inputs: int, exclusive: int, floating: int, stop: bool = True, release: bool = True, announce: bool = True
) -> GateFinding:
    """Decide for these numbers, which may be of any size.

    Args:
        inputs: channels of the gate, at least 1.
        exclusive: buffers of each channel.
        floating: buffers of the gate's pool.
        stop: does a sender stop behind its barrier?
        release: does a barrier take back the floating buffers of a channel without exclusive ones?
        announce: does a sender without credit announce its backlog?

    Raises:
        ValueError: a number is out of its range.
    """
    parameters = Parameters(
        inputs=inputs,
        exclusive=exclusive,
        floating=floating,
        # A channel may wait for the whole pool, behind a barrier.
        backlog=floating + 1,
    )
    rules = Rules(stop, release, announce)
    if exclusive > 0:
        return GateFinding(
            parameters=parameters,
            rules=rules,
            verdict="live",
            how="proved",
            theorem="gate-live-exclusive",
            reason="each input has a buffer that no other input can take",
        )
    if floating == 0 or not announce:
        reason = "there is no buffer at all" if floating == 0 else "a sender without credit cannot say that it has data"
        moves = [("OfferData", 0), *_without_buffers(rules)]
        return _run(parameters, rules, moves, "NeverStuck", "deadlock", reason)
    if stop and release:
        return GateFinding(
            parameters=parameters,
            rules=rules,
            verdict="live",
            how="proved",
            theorem="gate-live-floating",
            reason="an input that is blocked holds no floating buffer, and one that has data says so",
        )
    if release:
        reason = "a sender that does not stop uses credit that its barrier has taken back"
        return _run(parameters, rules, _void_credit(), "Conservation", "buffers out of nothing", reason)
    if inputs == 1:
        return _explored(parameters, rules)
    kept = "as credit that it may not use" if stop else "for data that is stored behind its barrier"
    reason = f"a blocked input keeps the whole pool, {kept}, and another one waits for it"
    finding = _run(parameters, rules, _kept(floating, as_data=not stop), "NeverStuck", "deadlock", reason)
    # Blocked inputs may also share the pool, and other moves may need fewer steps.
    return replace(finding, is_shortest=floating == 1)


def _ways_to_live(parameters: Parameters, rules: Rules) -> str:
    """What to change, in the words of the command; each way is sufficient alone."""
    off = " and ".join(f"--no-{name}" for name, is_kept in rules._asdict().items() if not is_kept)
    ways = ["choose --floating 1"] if parameters.floating == 0 else []
    ways += [f"leave {off} away"] if off else []
    return f"choose --exclusive 1, or {' and '.join(ways)}"


def _without_buffers(rules: Rules) -> list[Move]:
    return [("AnnounceBacklog", 0), ("Deliver", 0)] if rules.announce else []


def _void_credit() -> list[Move]:
    """Input 0 gets credit for data behind its barrier, which takes it back: both ends have the buffer."""
    asked = ["OfferBarrier", "OfferData", "AnnounceBacklog", "SendBarrier", "Deliver"]
    return [(action, 0) for action in (*asked, "Borrow", "Grant", "AddCredit", "SendData", "Deliver")]


def _kept(floating: int, *, as_data: bool) -> list[Move]:
    """Input 1 gets the whole pool for data behind its barrier, and is blocked; input 0 waits for a buffer."""
    begin: list[Move] = [("OfferData", 0), ("OfferBarrier", 1), *[("OfferData", 1)] * floating]
    told: list[Move] = [("AnnounceBacklog", 0), ("AnnounceBacklog", 1), ("Deliver", 0), ("Deliver", 1)]
    lent: list[Move] = [*[("Borrow", 1)] * floating, ("Grant", 1), ("AddCredit", 1)]
    barrier: list[Move] = [("SendBarrier", 1), ("Deliver", 1), ("ConsumeBarrier", 1)]
    if not as_data:
        return [*begin, *told, *lent, *barrier]
    # The barrier carries an empty backlog, so the real one is announced behind it.
    stored: list[Move] = [*[("SendData", 1)] * floating, *[("Deliver", 1)] * floating]
    return [*begin, *barrier, *told, *lent, *stored]


def _run(
    parameters: Parameters,
    rules: Rules,
    moves: Iterable[Move],
    broken: str,
    verdict: Literal["deadlock", "buffers out of nothing"],
    reason: str,
) -> GateFinding:
    system = rules.system
    state = system.initial(parameters)
    steps = []
    for action, name in moves:
        state = system.perform(action, state, parameters, name)
        steps.append(Step(action, (name,), state))
    if system.invariants[broken](state, parameters):
        raise AssertionError(f"the run into {verdict} ends in a state where {broken} holds: {parameters}")
    return GateFinding(
        parameters=parameters,
        rules=rules,
        verdict=verdict,
        how="run",
        reason=reason,
        advice=_ways_to_live(parameters, rules),
        steps=tuple(steps),
    )


def _explored(parameters: Parameters, rules: Rules) -> GateFinding:
    """A single input is aligned with itself; more buffers than waiting data change nothing."""
    small = Parameters(
        **{**vars(parameters), "backlog": _BACKLOG_OF_ONE_INPUT, "floating": min(parameters.floating, 3)}
    )
    system = rules.system
    graph = explore(system, small, invariants={"NeverStuck": system.invariants["NeverStuck"]}, stop_at_violation=True)
    for violation in graph.violations:
        return GateFinding(
            parameters=small,
            rules=rules,
            verdict="deadlock",
            how="explored",
            reason="the input waits for itself",
            advice=_ways_to_live(parameters, rules),
            steps=violation.steps,
        )
    return GateFinding(
        parameters=small,
        rules=rules,
        verdict="live",
        how="explored",
        reason=f"a single input waits for no other one: all {graph.state_count:,} states with at most "
        f"{small.backlog} messages were visited",
    )
