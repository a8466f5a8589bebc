"""A refuted claim about the running code, as a drawing: the state, the call, what the code did and the model does.

What it shows is what the claim has told, with the solver's values (``permitflow_proofs.code.refinement``).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from permitflow_tools.explain import svg
from permitflow_tools.explain.assets import asset
from permitflow_tools.explain.look import DRAWING_WIDTH, MARGIN, Look
from permitflow_tools.explain.run_page import head

_COLUMNS = {"in the code": MARGIN, "in the model": 280, "before": 480, "after the call": 680, "as the model says": 880}
_LEADING = 22
_NOTHING = frozenset({"0", "FALSE", "none", "0 items", "\u27e8\u27e9"})


def refutation(look: Look, title: str, values: Mapping[str, object], told: Mapping[str, Any]) -> str:
    """The drawing.

    Args:
        look: of the model.
        title: the claim.
        values: of all symbols; shown where the claim has told nothing.
        told: by the claim, with values in place of symbols.
    """
    parts, y = head("refuted", title, _sentence(look, told), _remarks(look, values, told), 40, is_bad=True)
    rows = list(_rows(look, told))
    if rows:
        parts += [svg.text(x, y, name, class_="heading") for name, x in _COLUMNS.items()]
    for cells, kind in rows:
        y += _LEADING
        parts += [svg.text(x, y, cell, class_=kind) for x, cell in zip(_COLUMNS.values(), cells, strict=True) if cell]
    y += 28
    sheet = svg.element("rect", class_="sheet", width=DRAWING_WIDTH, height=y, rx=12)
    styles = [asset("palette.css"), asset("storyboard.css")]
    return svg.document([sheet, *parts], width=DRAWING_WIDTH, height=y, title=title, styles=styles, class_="story")


def _sentence(look: Look, told: Mapping[str, Any]) -> str:
    """What the code did, and what the model does."""
    if "call" not in told:
        return "It is false with these values."
    call = f"{told['call']}({_listed(look, told['arguments'], ' = ')})"
    events = [_event(look, event) for event in told.get("events", ())]
    did = f"is refused ({told['refusal']})" if "refusal" in told else f"returns {_text(look, told.get('result'))}"
    recorded = f"records {', '.join(events)}" if events else "records nothing"
    model = f"; the model {told['model']}" if "model" in told else ""
    return f"{call} {did} and {recorded}{model}."


def _event(look: Look, event: Any) -> str:
    arguments, counters = (", ".join(map(look.value, numbers)) for numbers in (event.arguments, event.counters))
    return f"{event.action}({arguments}) with counters {counters}"


def _remarks(look: Look, values: Mapping[str, object], told: Mapping[str, Any]) -> Iterator[str]:
    if "state" not in told:
        yield _listed(look, values)
        return
    yield f"Parameters: {_listed(look, told['parameters'])}."
    named = set(told["model_names"].values())
    others = {name: value for name, value in told["state"].items() if name not in named}
    yield f"Further in the model, if it is not empty: {_listed(look, others, are_all=False)}."


def _listed(look: Look, values: Mapping[str, Any], between: str = " ", *, are_all: bool = True) -> str:
    texts = {name: _text(look, value) for name, value in values.items()}
    return ", ".join(f"{name}{between}{text}" for name, text in texts.items() if are_all or text not in _NOTHING)


def _rows(look: Look, told: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Fields that stand for a part of the model's state, that have changed, or that are not as they must be."""
    names, found, must, agree = (told.get(part, {}) for part in ("model_names", "found", "must", "agree"))
    for field, value in told.get("before", {}).items():
        after = found.get(field, value)
        is_wrong = not agree.get(field, field not in must or after == must[field])
        if field in names or after != value or is_wrong:
            asked = _text(look, must[field]) if field in must else ""
            kind = "bad-text" if is_wrong else "" if after != value else "muted"
            yield (field, names.get(field, ""), _text(look, value), _text(look, after), asked), kind


def _text(look: Look, value: object) -> str:
    if hasattr(value, "_asdict"):  # also what is 0
        return ", ".join(f"{name} {_text(look, part)}" for name, part in value._asdict().items())
    return value if isinstance(value, str) else look.value(value)
