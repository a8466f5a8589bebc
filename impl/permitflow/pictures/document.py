"""A run as one JSON document: all that its page shows."""

import json
from dataclasses import asdict
from typing import NamedTuple, TypeAlias

from permitflow.pictures.actors import actor_of
from permitflow.pictures.columns import columns_of
from permitflow.pictures.ledger import PLACES
from permitflow.pictures.run import Run
from permitflow.pictures.specification import Specification, camel_case
from permitflow_model.permit_channel import SYSTEM, Parameters, State, total

__all__ = ["Document", "Fact", "document_of", "embedded", "facts_of", "parameter_facts", "ranges"]


class Fact(NamedTuple):
    """A parameter as it is shown."""

    name: str
    """Of the constant in the specification."""

    value: str
    remark: str
    """The specification's own words about it."""


Document: TypeAlias = dict[str, object]
"""What ``json`` can write."""


def document_of(run: Run) -> Document:
    """Everything that the page shows, as it is embedded in it."""
    specification = Specification(SYSTEM.module)
    columns = columns_of(run)
    buf = total(run.parameters)._asdict()
    return {
        "title": run.title,
        "verdict": run.verdict.value,
        "sentence": run.sentence,
        "remarks": list(run.remarks),
        "batch": run.parameters.batch,
        "buf": {name: buf[name] for name in columns.classes},
        "places": PLACES,
        "skipped": run.skipped,
        "actions": _actions(specification),
        "variables": _variables(specification),
        "steps": {"action": columns.action, "argument": columns.argument, "changed": columns.changed},
        "enabled": columns.enabled,
        "pending": columns.pending,
        "ledger": columns.ledger,
        "messages": columns.messages,
        "returns": columns.returns,
        "reasonTexts": columns.reason_texts,
        "reasons": columns.reasons,
        "conclusions": [asdict(section) for section in run.conclusions],
    }


def embedded(document: Document) -> str:
    """The document as text that can stand inside a ``script`` element."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def facts_of(run: Run) -> list[Fact]:
    """The parameters of a run that are worth knowing."""
    if run.is_recorded:  # its bounds nobody chose
        return parameter_facts(run.parameters, sizes="", waiters="")
    if run.has_every_size:
        return parameter_facts(run.parameters, sizes=f"1\u2013{run.parameters.clamp:,}")
    return parameter_facts(run.parameters)


def parameter_facts(parameters: Parameters, *, sizes: str | None = None, waiters: str | None = None) -> list[Fact]:
    """The parameters that are worth knowing; texts given here are shown instead of their own."""
    chosen_waiters = f"{parameters.waiters:,}" if parameters.waiters > 1 else ""
    remarks = Specification(SYSTEM.module).remarks()
    shown = {
        "row_count": f"{parameters.row_count:,}",
        "batch": f"{parameters.batch:,}",
        "clamp": f"{parameters.clamp:,}",
        "sizes": ranges(parameters.sizes) if sizes is None else sizes,
        "barrier_permits": f"{parameters.barrier_permits:,}" if parameters.barrier_permits else "",
        "watermarks": "yes" if parameters.watermarks else "",
        "flush_idle": "yes" if parameters.flush_idle else "no",
        "withdrawals": "yes" if parameters.withdrawals else "",
        "waiters": chosen_waiters if waiters is None else waiters,
    }
    return [Fact(_constant(name), value, remarks[_constant(name)]) for name, value in shown.items() if value]


def ranges(numbers: tuple[int, ...]) -> str:
    """Numbers in few words: 1 to 7 as a range."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]:,}" if len(part) == 1 else f"{part[0]:,}\u2013{part[-1]:,}" for part in parts)


def _constant(name: str) -> str:
    assert name in Parameters.__dataclass_fields__
    spelt = camel_case(name)
    return spelt[0].upper() + spelt[1:]


def _actions(specification: Specification) -> list[Document]:
    passages = specification.operators()
    return [
        {
            "name": action.name,
            "actor": actor_of(action.name),
            "isEnvironment": action.is_environment,
            "does": (action.perform.__doc__ or "").strip(),
            "place": passages[action.name].place,
            "firstLine": passages[action.name].first_line,
            "text": passages[action.name].text,
        }
        for action in SYSTEM.actions
    ]


def _variables(specification: Specification) -> list[Document]:
    remarks = specification.remarks()
    names = [camel_case(field) for field in State._fields]
    return [{"name": name, "remark": remarks[name]} for name in names]
