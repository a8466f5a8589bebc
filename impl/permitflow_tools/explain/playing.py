"""Pages to play with: the numbers are chosen by sliders, the next step by a click; the verdict stands above.

The model computes the states of every choice when the page is made, so the page needs neither a network nor the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import product
from typing import Any, NamedTuple

from permitflow_model import demand, mute, permit_channel
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Step, System
from permitflow_model.thresholds import decide
from permitflow_tools.checking.gate import check_gate
from permitflow_tools.explain.assets import page
from permitflow_tools.explain.document import document_of
from permitflow_tools.explain.look import Document, Look
from permitflow_tools.explain.looks.permit_channel import LOOK as PERMIT_LOOK
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.run import Run, Section, Verdict
from permitflow_tools.explain.run_page import SCRIPTS, STYLES, storyboard
from permitflow_tools.explain.surroundings import Surroundings

__all__ = ["PLAYGROUNDS", "Knob", "Playground", "Setting", "play_page"]

Steps = Sequence[Step[Any]]

LARGEST = 5
"""Of the numbers of a channel: with more, all states of all choices would not fit into a page."""

BADGES = {True: "never stuck", False: "can get stuck"}

STATES_OF_A_GATE = 600
"""A gate has many more; a page holds those nearest to the run into the deadlock, or to the beginning."""


@dataclass(frozen=True)
class Knob:
    """A number or a switch that the reader chooses."""

    name: str
    label: str
    values: range | tuple[bool, ...]
    start: int

    @property
    def is_switch(self) -> bool:
        """Is it on or off?"""
        return not isinstance(self.values, range)


class Setting(NamedTuple):
    """What one choice of all knobs is."""

    parameters: Any
    is_live: bool
    sentence: str
    steps: Steps
    """A run into the fault; empty if it is live."""
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Playground:
    """A page to play with."""

    name: str
    title: str
    introduction: str
    look: Look
    knobs: tuple[Knob, ...]
    setting: Callable[..., Setting]
    """Takes the values of the knobs."""
    most_states: int = 10_000

    def settings(self) -> Mapping[str, Setting]:
        """Each choice, by the values of the knobs as in ``4-3-3-0``."""
        choices = product(*(knob.values for knob in self.knobs))
        return {key(choice): self.setting(*choice) for choice in choices}


def key(values: Sequence[int]) -> str:
    """The name of a choice."""
    return "-".join(str(int(value)) for value in values)


def _channel(row_permits: int, permit_batch: int, max_chunk_cost: int, flush_idle: bool) -> Setting:
    decision = decide(row_permits, permit_batch, max_chunk_cost, flush_idle=flush_idle)
    parameters = permit_channel.Parameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost,
        sizes=tuple(range(1, max_chunk_cost + 1)),
        flush_idle=flush_idle,
    )
    safe = decision.safe_max_chunk_cost
    advice = [f"Chunks of at most {safe}"] if safe else []
    if decision.safe_permit_batch:
        advice.append(f"A permit batch of at most {decision.safe_permit_batch}")
    if not flush_idle and max_chunk_cost <= row_permits:
        advice.append("A receiver that returns what it holds when it is idle")
    formula = f"permits = {row_permits}" if flush_idle else f"permits - batch + 1 = {max(0, safe)}"
    explanation = decision.explanation[0].upper() + decision.explanation[1:]
    sentence = f"{explanation}. The formula: a chunk may have at most {formula} rows; the largest has {max_chunk_cost}."
    steps = () if decision.run is None else decision.run.steps
    return Setting(parameters, decision.is_live, sentence, steps, tuple(advice))


def _demand(size: int, batch: int, pulls: bool) -> Setting:
    parameters = demand.Parameters(size=size, batch=batch, initial=0 if pulls else size)
    return _visited(demand.SYSTEM, parameters, (f"A batch of at most {size}",))


def _gate(exclusive: int, floating: int, stop: bool, release: bool, announce: bool) -> Setting:
    found = check_gate(inputs=2, exclusive=exclusive, floating=floating, stop=stop, release=release, announce=announce)
    proof = f" Proved for any number of inputs ({found.theorem})." if found.theorem else ""
    sentence = f"{found.reason[0].upper()}{found.reason[1:]}.{proof}"
    return Setting(found.parameters, found.verdict == "live", sentence, found.steps)


def _mute(relays: int, high: int, low: int, is_lost: bool, tells_again: bool) -> Setting:
    nodes = range(1, relays + 3)
    parameters = mute.Parameters(
        sinks=1,
        relays=relays,
        sources=1,
        hops=frozenset(frozenset(pair) for pair in zip(nodes, nodes[1:], strict=False)),
        high=high,
        low=low,
        supply=3,
        remakes=int(is_lost),
        tells_again=tells_again,
    )
    return _visited(mute.SYSTEM, parameters, ("A new connection that is told who mutes",))


def _visited(system: System[Any, Any], parameters: Any, advice: tuple[str, ...]) -> Setting:
    """The verdict of a search."""
    graph = explore(system, parameters, invariants={"NeverStuck": system.invariants["NeverStuck"]})
    count = f"{graph.state_count:,} states"
    if not graph.violations:
        return Setting(parameters, True, f"All {count} were visited: in none of them something waits for ever.", ())
    steps = graph.violations[0].steps
    sentence = f"The nearest of its {count} in which something waits for ever is {len(steps)} steps away."
    return Setting(parameters, False, sentence, steps, advice)


PLAYGROUNDS = {
    each.name: each
    for each in (
        Playground(
            name="permit-channel",
            title="The permit channel",
            introduction="A sender may send one row for each permit it holds. The receiver returns permits once it "
            "has consumed a whole batch. Choose the numbers, then the steps: can you make a chunk wait for ever?",
            look=PERMIT_LOOK,
            knobs=(
                Knob("row_permits", "Permits of the channel", range(1, LARGEST + 1), 4),
                Knob("permit_batch", "Permits are returned in batches of", range(1, LARGEST + 1), 3),
                Knob("max_chunk_cost", "Rows of the largest chunk", range(1, LARGEST + 1), 3),
                Knob("flush_idle", "An idle receiver returns what it holds", (False, True), 0),
            ),
            setting=_channel,
        ),
        Playground(
            name="demand",
            title="The demand loop",
            introduction="The receiver requests messages, a batch at a time; the sender sends what was requested. "
            "Which batch can never be complete?",
            look=look_of("Demand"),
            knobs=(
                Knob("size", "Messages that may be out at once", range(1, 5), 3),
                Knob("batch", "Messages of a request", range(1, 6), 2),
                Knob("pulls", "Nothing is sent before the receiver asks", (False, True), 0),
            ),
            setting=_demand,
        ),
        Playground(
            name="gate",
            title="The gate",
            introduction="Two inputs align their barriers: an input whose barrier was consumed is blocked until the "
            "barrier of the other one is. Buffers at the gate are credit for the senders. Which rule can be left out?",
            look=look_of("InputGate"),
            knobs=(
                Knob("exclusive", "Buffers of each input", range(2), 0),
                Knob("floating", "Buffers that both share", range(2), 1),
                Knob("stop", "A sender stops behind its barrier", (False, True), 1),
                Knob("release", "A barrier takes shared buffers back", (False, True), 1),
                Knob("announce", "A sender without credit says that it has data", (False, True), 1),
            ),
            setting=_gate,
            most_states=STATES_OF_A_GATE,
        ),
        Playground(
            name="mute",
            title="The mute chain",
            introduction="A sink whose queue is above its high mark mutes the source, through relays; at the low mark "
            "it unmutes it. What may be lost on the way, so that the source is silent for ever?",
            look=look_of("Mute"),
            knobs=(
                Knob("relays", "Relays between source and sink", range(3), 1),
                Knob("high", "The high mark", range(1, 3), 1),
                Knob("low", "The low mark", range(2), 0),
                Knob("is_lost", "A connection may be made anew, once", (False, True), 1),
                Knob("tells_again", "A new connection is told who mutes", (False, True), 1),
            ),
            setting=_mute,
        ),
    )
}
"""The pages, by name."""


def play_page(playground: Playground, *, others: bool = False) -> str:
    """The page, with all states of all choices; ``others``: the other pages are in the same folder."""
    settings = playground.settings()
    surroundings = Surroundings(playground.look)
    graphs = {
        name: surroundings.graph(
            setting.parameters,
            playground.look.system.initial(setting.parameters),
            setting.steps,
            most=playground.most_states,
        )
        for name, setting in settings.items()
    }
    chosen = settings[key([knob.start for knob in playground.knobs])]
    base = document_of(_run(playground, chosen, ()))
    never = surroundings.never_taken
    document: Document = {
        **base,
        "absentVariables": surroundings.never_changed,
        "tables": surroundings.document(),
        "settings": {
            name: {**_told(playground, setting, never), "graph": graphs[name]} for name, setting in settings.items()
        },
    }
    example = next(setting for setting in (chosen, *settings.values()) if not setting.is_live)
    return page(
        "run",
        STYLES,
        {
            "title": playground.title,
            "verdict": BADGES[chosen.is_live],
            "sentence": chosen.sentence,
            "module": playground.look.specification.file,
            "footnote": playground.look.footnote,
            "given": "Begin again",
            "address": "The address of this page names the numbers.",
        },
        {
            "facts": "",
            "remarks": f'<p class="remark">{escape(playground.introduction)}</p>',
            "knobs": _knobs(playground, others=others),
            "storyboard": storyboard(_run(playground, example, example.steps), standalone=False),
        },
        scripts=SCRIPTS,
        document=document,
    )


def _told(playground: Playground, setting: Setting, never: Sequence[int]) -> Document:
    """What the page shows of a choice, but for its states."""
    look, parameters = playground.look, setting.parameters
    sections = [Section("What would help, each alone", setting.advice)] if setting.advice else []
    absent = look.absent_actions(parameters)
    empty = look.document(parameters, [look.system.initial(parameters)], ())
    kept = {name: empty[name] for name in ("buf", "permit_batch") if name in empty}
    return {
        "verdict": "live" if setting.is_live else "stuck",
        "badge": BADGES[setting.is_live],
        "sentence": setting.sentence,
        "shortest": len(setting.steps),
        "absent": [n for n, action in enumerate(look.system.actions) if n in never or action.name in absent],
        "conclusions": [asdict(section) for section in sections],
        **kept,
    }


def _run(playground: Playground, setting: Setting, steps: Steps) -> Run:
    look = playground.look
    return Run(
        look=look,
        title=playground.title,
        verdict=Verdict.LIVE if setting.is_live else Verdict.STUCK,
        sentence=setting.sentence,
        parameters=setting.parameters,
        start=look.system.initial(setting.parameters),
        steps=steps,
    )


def _knobs(playground: Playground, *, others: bool) -> str:
    rows = "".join(map(_knob, playground.knobs))
    links = " ".join(
        f'<a href="{each.name}.html">{escape(each.title)}</a>'
        for each in PLAYGROUNDS.values()
        if each is not playground
    )
    return (
        '<form class="card knobs" id="knobs" aria-labelledby="knobs-heading">'
        f'<h2 id="knobs-heading">The numbers</h2><div class="knob-rows">{rows}</div>'
        '<div class="knob-tools"><button type="button" class="worded" id="shortest">Show a shortest way to get stuck'
        "</button>"
        + (
            f'<nav class="others" aria-label="Other pages to play with">Play with others: {links}</nav>'
            if others
            else ""
        )
        + "</div></form>"
    )


def _knob(knob: Knob) -> str:
    name = f"knob-{knob.name}"
    label = f'<label for="{name}">{escape(knob.label)}</label>'
    if knob.is_switch:
        return f'<p class="knob"><input type="checkbox" id="{name}"{" checked" if knob.start else ""}>{label}</p>'
    least, most = knob.values[0], knob.values[-1]
    slider = f'<input type="range" id="{name}" min="{least}" max="{most}" value="{knob.start}">'
    return f'<p class="knob">{label}{slider}<output for="{name}">{knob.start}</output></p>'
