"""Pages to play with: the numbers are chosen by sliders, the next step by a click; the verdict stands above.

The model computes the states of every choice when the page is made, so the page needs neither a network nor the model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import product
from typing import Any, NamedTuple

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Step, System
from permitflow_tools.explain.assets import page
from permitflow_tools.explain.document import document_of
from permitflow_tools.explain.look import Document, Look
from permitflow_tools.explain.run import ExplainedRun, RunOutcome, Section
from permitflow_tools.explain.run_page import SCRIPTS, STYLES, storyboard
from permitflow_tools.explain.surroundings import Surroundings

Steps = Sequence[Step[Any]]

BADGES = {True: "never stuck", False: "can get stuck"}


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


class PlaygroundSetting(NamedTuple):
    """What one choice of all knobs is."""

    parameters: Any
    is_live: bool
    sentence: str
    steps: Steps
    """A run into the fault; empty if it is live."""
    advice: tuple[str, ...] = ()
    system: System[Any, Any] | None = None
    """If it is not the look's: with mistaken actions."""


@dataclass(frozen=True, kw_only=True)
class Playground:
    """A page to play with."""

    name: str
    title: str
    introduction: str
    look: Look
    knobs: tuple[Knob, ...]
    setting: Callable[..., PlaygroundSetting]
    """Takes the values of the knobs."""
    most_states: int = 10_000

    def settings(self) -> Mapping[str, PlaygroundSetting]:
        """Each choice, by the values of the knobs as in ``4-3-3-0``."""
        choices = product(*(knob.values for knob in self.knobs))
        return {key(choice): self.setting(*choice) for choice in choices}


def key(values: Sequence[int]) -> str:
    """The name of a choice."""
    return "-".join(str(int(value)) for value in values)


def visited(system: System[Any, Any], parameters: Any, advice: tuple[str, ...]) -> PlaygroundSetting:
    """The verdict of a search."""
    graph = explore(system, parameters, invariants={"NeverStuck": system.invariants["NeverStuck"]})
    count = f"{graph.state_count:,} states"
    if not graph.violations:
        sentence = f"All {count} were visited: in none of them something waits for ever."
        return PlaygroundSetting(parameters, True, sentence, (), system=system)
    steps = graph.violations[0].steps
    sentence = f"The nearest of its {count} in which something waits for ever is {len(steps)} steps away."
    return PlaygroundSetting(parameters, False, sentence, steps, advice, system)


def play_page(
    playground: Playground, others: Iterable[Playground] = (), report: Callable[[float], None] = lambda share: None
) -> str:
    """The page, with all states of all choices; it leads to the pages of ``others``, in the same folder.

    ``report`` is called with the share of the choices whose states are found.
    """
    settings = playground.settings()
    surroundings = Surroundings(playground.look)
    graphs = {}
    for count, (name, setting) in enumerate(settings.items(), 1):
        graphs[name] = surroundings.graph(
            setting.parameters,
            playground.look.system.initial(setting.parameters),
            setting.steps,
            most=playground.most_states,
            system=setting.system,
        )
        report(count / len(settings))
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
            "address": "The address of this page names the numbers and the steps.",
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


def _told(playground: Playground, setting: PlaygroundSetting, never: Sequence[int]) -> Document:
    """What the page shows of a choice, but for its states."""
    look, parameters = playground.look, setting.parameters
    sections = [Section("What would help, each alone", setting.advice)] if setting.advice else []
    absent = look.absent_actions(parameters)
    empty = look.document(parameters, [look.system.initial(parameters)], ())
    kept: Document = {name: empty[name] for name in ("buf", "permit_batch") if name in empty}
    return {
        "verdict": "live" if setting.is_live else "stuck",
        "badge": BADGES[setting.is_live],
        "sentence": setting.sentence,
        "shortest": len(setting.steps),
        "absent": [n for n, action in enumerate(look.system.actions) if n in never or action.name in absent],
        "conclusions": [asdict(section) for section in sections],
        **kept,
    }


def _run(playground: Playground, setting: PlaygroundSetting, steps: Steps) -> ExplainedRun:
    look = playground.look
    return ExplainedRun(
        look=look,
        title=playground.title,
        verdict=RunOutcome.LIVE if setting.is_live else RunOutcome.STUCK,
        sentence=setting.sentence,
        parameters=setting.parameters,
        start=look.system.initial(setting.parameters),
        steps=steps,
    )


def _knobs(playground: Playground, *, others: Iterable[Playground]) -> str:
    rows = "".join(map(_knob, playground.knobs))
    links = " ".join(
        f'<a href="{each.name}.html">{escape(each.title)}</a>' for each in others if each is not playground
    )
    nav = f'<nav class="others" aria-label="Other pages to play with">Play with others: {links}</nav>' if links else ""
    return (
        '<form class="card knobs" id="knobs" aria-labelledby="knobs-heading">'
        f'<h2 id="knobs-heading">The numbers</h2><div class="knob-rows">{rows}</div>'
        '<div class="knob-tools"><button type="button" class="worded" id="shortest">Show a shortest way to get stuck'
        f"</button>{nav}</div></form>"
    )


def _knob(knob: Knob) -> str:
    name = f"knob-{knob.name}"
    label = f'<label for="{name}">{escape(knob.label)}</label>'
    if knob.is_switch:
        return f'<p class="knob"><input type="checkbox" id="{name}"{" checked" if knob.start else ""}>{label}</p>'
    least, most = knob.values[0], knob.values[-1]
    slider = f'<input type="range" id="{name}" min="{least}" max="{most}" value="{knob.start}">'
    return f'<p class="knob">{label}{slider}<output for="{name}">{knob.start}</output></p>'
