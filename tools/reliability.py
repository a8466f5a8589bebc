"""docs/reliability.md: what is promised, what was tried how often, what it found.

    python -m tools.reliability      writes the page again

Each command that tries promises keeps a small file in docs/data/reliability when it is asked to (``--keep``); the page
is made of these files alone, and a test compares it with them.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.marks import pasted

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENT = CHECKOUT / "docs/reliability.md"
RESULTS = CHECKOUT / "docs/data/reliability"
FOUND = "found.json"

Cell = str | int | float


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one command has tried."""

    name: str
    """The name of its file."""
    title: str
    told: str
    """What ran, and who judged it: a sentence or two."""
    command: str
    date: str
    """As 2026-11-28."""
    seconds: float
    tried: int
    """Schedules, runs or the like."""
    broken: int
    """How many of them broke a promise."""
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    promises: Sequence[str]
    """The promises that were judged each time; the same words as in other trials for the same promise."""
    picture: str = ""
    """The name of a file in docs/pictures, if there is one."""

    def keep(self, folder: Path = RESULTS) -> None:
        """Write its file."""
        folder.mkdir(parents=True, exist_ok=True)
        facts = dataclasses.asdict(self)
        # A row is a line, so that a difference of two versions can be read.
        rows = ",\n".join(f"    {json.dumps(row)}" for row in facts.pop("rows"))
        text = json.dumps(facts, indent=2, ensure_ascii=False).removesuffix("\n}")
        (folder / f"{self.name}.json").write_text(f'{text},\n  "rows": [\n{rows}\n  ]\n}}\n', "utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what ``keep`` has written.

        Raises:
            ValueError: the file is something else.
        """
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except TypeError as error:
            raise ValueError(f"{path.name} is no trial ({error}); let its command write it again") from None


def trials(folder: Path = RESULTS) -> list[Trial]:
    """All that were kept, the most often tried first."""
    found = [Trial.read(path) for path in sorted(folder.glob("*.json")) if path.name != FOUND]
    return sorted(found, key=lambda trial: -trial.tried)


def promised(kept: Sequence[Trial]) -> str:
    """A line for each promise: who has tried it how often."""
    by_promise: dict[str, list[Trial]] = {}
    for trial in kept:
        for promise in trial.promises:
            by_promise.setdefault(promise, []).append(trial)
    ahead = sorted(by_promise.items(), key=lambda item: -sum(trial.tried for trial in item[1]))
    rows = [
        (promise, "; ".join(f"[{trial.title}](#{_anchor(trial.title)}): {_number(trial.tried)}" for trial in own))
        for promise, own in ahead
    ]
    return _table(("Promise", "Tried so often"), rows)


def tried(kept: Sequence[Trial]) -> str:
    """A section for each trial."""
    return "\n".join(line for trial in kept for line in _section(trial))


def _section(trial: Trial) -> Iterator[str]:
    verdict = f"{_number(trial.broken)} broke a promise" if trial.broken else "no promise was broken"
    yield f"### {trial.title}\n"
    often = f"{_number(trial.tried)} in {trial.seconds:,.0f} s"
    yield f"{trial.told} `{trial.command}`, {trial.date}: {often}, {verdict}.\n"
    if trial.picture:
        yield f"![{trial.title}](pictures/{trial.picture})\n"
    yield _table(trial.columns, trial.rows)


def found(folder: Path = RESULTS) -> str:
    """A line for each fault of ours that a trial has found."""
    path = folder / FOUND
    faults = json.loads(path.read_text("utf-8")) if path.exists() else []
    columns = ("What was wrong", "Who found it", "Does the simulator find it now?", "It stays as")
    return _table(columns, [(f["what"], f["by"], f.get("simulator", "it has"), f["stays"]) for f in faults])


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    lines = [columns, ["---" if _is_text(rows, place) else "--:" for place in range(len(columns))]]
    lines += [[_cell(cell) for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _is_text(rows: Sequence[Sequence[Cell]], place: int) -> bool:
    return any(isinstance(row[place], str) for row in rows) or not rows


def _cell(cell: Cell) -> str:
    return cell.replace("|", "\\|") if isinstance(cell, str) else _number(cell)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _anchor(title: str) -> str:
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def page(text: str, folder: Path = RESULTS) -> str:
    """The document, with what the files say."""
    kept = trials(folder)
    for mark, content in (("promised", promised(kept)), ("tried", tried(kept)), ("found", found(folder))):
        text = pasted(text, mark, content)
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(page(DOCUMENT.read_text("utf-8")), "utf-8")
