"""Uses TLC as a referee over recorded runs: does the specification's own text agree with the model?"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from permitflow.tracing.reader import ChannelTrace
from permitflow_model.kernel.replay import Path, RecordedStep
from permitflow_model.tlc.trace import SEGMENT_STEPS, TraceStep, Walk, walk_trace
from permitflow_testing.traces import judge


@dataclass(frozen=True)
class Referee:
    """TLC's verdict beside the model's."""

    walk: Walk
    """TLC's walk over all segments; it stops at the first segment that TLC does not complete."""
    steps: int
    """Steps of the specification that explain the run, by the model."""
    impossible: int
    """Events that the model calls impossible after these steps."""

    @property
    def agrees(self) -> bool:
        """Does TLC reach the same step as the model, and none beyond?"""
        return self.walk.reached == self.walk.steps and not self.walk.goes_on

    def describe(self) -> str:
        """The agreement, or both verdicts."""
        walk = self.walk
        took = f"{walk.seconds:.1f} s"
        if walk.reached < walk.steps:
            return (
                f"TLC DISAGREES: step {walk.reached + 1:,} is not a step of the specification, "
                f"while the model explains {self.steps:,} ({took})"
            )
        if walk.goes_on:
            return f"TLC DISAGREES: after {walk.steps:,} steps an event is possible that the model refuses ({took})"
        then = ", and nothing that was recorded can follow" if self.impossible else ""
        return f"TLC agrees: all {walk.steps:,} steps are steps of the specification{then} ({took})"

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "agrees": self.agrees,
            "steps": self.steps,
            "reached": self.walk.reached,
            "goes_on": self.walk.goes_on,
            "seconds": round(self.walk.seconds, 3),
        }


def ask_tlc(
    channel: ChannelTrace, *, spec_directory: FilePath | None = None, segment_steps: int = SEGMENT_STEPS
) -> Referee:
    """Give TLC the steps by which the model explains the run, and the events that it finds impossible after them.

    TLC gets ``segment_steps`` at a time, and the state that they must reach.

    Raises:
        ValueError: a number is too large for TLC.
        TlcNotFoundError: Java or TLC is missing.
        TlcError: TLC came to no verdict.
    """
    verdict = judge(channel, keep_path=True)
    path = verdict.world.path
    links = [] if path is None else path.links()
    told = list(_told(links, {action.name for action in verdict.subject.system.actions}))
    # An end that was not recorded could continue in many ways: TLC is not asked about all of them.
    blocked = [_of_event(block.event) for block in verdict.replay.blocked if len(channel.ends) == 2]
    parameters = verdict.subject.parameters(channel)
    whole = Walk(steps=0, reached=0, goes_on=False, seconds=0.0)
    for first in range(0, max(len(told), 1), segment_steps):
        segment = told[first : first + segment_steps]
        is_last = first + len(segment) == len(told)
        walk = walk_trace(
            verdict.subject.system,
            segment,
            parameters,
            start=links[first - 1].step.state if first else None,
            end=None if is_last else links[first + len(segment) - 1].step.state,
            impossible=blocked if is_last else (),
            spec_directory=spec_directory,
        )
        whole = whole.followed_by(walk)
        if walk.reached < walk.steps:
            break
    return Referee(whole, len(links), len(blocked))


def _told(links: list[Path[Any]], known: Collection[str]) -> Iterator[TraceStep]:
    before: set[str] = set()  # actions that explain the same event, earlier
    for link in links:
        step, event = link.step, link.event
        if event is None:
            # A step that is not an action of the specification is one of its trace module, which describes events.
            yield TraceStep(step.action, step.arguments if step.action in known else (0, *step.arguments))
            before.add(step.action)
            continue
        if event.action == step.action and step.action not in before:
            yield _of_event(event)
        else:
            # The arguments of an event describe several steps together.
            yield TraceStep(step.action, step.arguments, event.counters)
        before.clear()


def _of_event(event: RecordedStep) -> TraceStep:
    return TraceStep(event.action, event.arguments, event.counters)
