"""Deliberate mistakes in the actions of the models, made by rules: a theorem must notice each.

    python -m tools.model_mutants                          all models
    python -m tools.model_mutants demand conflate          two of them
    python -m tools.model_mutants --sample 20 --seed 7     twenty of all, drawn by this seed
    python -m tools.model_mutants --list                   the mistakes, without trying them
    python -m tools.model_mutants --write                  all models, and their table in docs/claims.md

A mistake forgets a guard, a part of a condition or an update, changes another field of the same type, does something
twice, or for one instead of all.  Only theorems are asked: a state count that differs notices nothing, and neither does
a model that is expected to fail.  The frame of a changed action is asked first, which takes milliseconds.  Of what it
does not notice it is asked whether it is a mistake at all: does a step differ, by more than stuttering, in any state of
the invariant, with any parameters that the theorems are about?  Z3 says so, or it is one; then all theorems are asked.

Three more answers are no refutation.  "Says nothing": the premises of a theorem cannot be met any more, which
`permitflow prove` reports.  "Refused": an action takes the head of a queue that may be empty, or replaces a member that
may not be there, which the model's queue and family refuse.  These two count as noticed.  "Unanswered" does not: the
prover fails in another way, so that no theorem says anything about the mistake.

What was answered is kept in .cache, by the texts of the model and of its chapter: a run goes on where it was stopped.
After a change of the prover's kernel, or of this program, --anew asks all again; so does `nox -s mutants`.

Exit code 0: all are noticed, but for those of tests/mutants/model_survivors.toml, each with its reason; 1: others
survived; 2: that list cannot be used.
"""

import argparse
import ast
import copy
import hashlib
import importlib
import inspect
import json
import os
import random
import re
import resource
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from permitflow_model.kernel.family import NoMemberError
from permitflow_model.kernel.queue import EmptyQueueError
from permitflow_model.kernel.system import Disabled
from permitflow_model.manifest import parts_of
from permitflow_model.registry import systems
from permitflow_model.tla_values import snake_case
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import is_same_state
from permitflow_proofs.kernel.induction import any_beginning
from permitflow_proofs.kernel.obligation import SymbolicObligation, decide
from tools.marks import pasted

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = (CHECKOUT / "model", CHECKOUT / "proofs")
PROVER = CHECKOUT / "proofs/permitflow_proofs/kernel"
ANSWERS = CHECKOUT / ".cache/model_mutants"
KNOWN = CHECKOUT / "tests/mutants/model_survivors.toml"
DOCUMENT = CHECKOUT / "docs/claims.md"
MARK = "mistakes in models, written by python -m tools.model_mutants --write"

SURVIVED = "survived"
EQUAL = "no difference"
SAYS_NOTHING = "says nothing"
REFUSED = "refused"
UNANSWERED = "unanswered"
WEAK = (SAYS_NOTHING, REFUSED, UNANSWERED)
"""If several apply, the first one counts."""

LIMIT_SECONDS = 120
"""Processor time for one mistake."""


@dataclass(frozen=True)
class Mistake:
    """A changed function of a model."""

    model: str
    """The file of the system."""
    files: tuple[str, ...]
    """All in which its actions are, each behind those that it imports."""
    file: str
    """The one that is changed."""
    function: str
    told: str
    make: Callable[[], str]
    """The text of the whole changed file."""
    actions: frozenset[str]
    """The actions that come to the function."""

    def __str__(self) -> str:
        return f"{self.model}: {self.function}: {self.told}"


# Making them.

Twins = dict[str, dict[str, str]]
"""For each class, by its name in small letters: another field of the same type for each field, or the field itself."""

Change = tuple[str, Callable[[Any], Any]]
"""In words, and what becomes of the node; None: it is left out."""


def _changes(node: ast.AST, twins: Twins) -> Iterator[Change]:
    text = ast.unparse(node).splitlines()[0] if isinstance(node, ast.expr | ast.stmt) else ""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="require"))):
            yield f"without {text}", lambda _: None
        case ast.BoolOp(values=values) if len(values) > 1:
            for place, value in enumerate(values):
                yield f"without {ast.unparse(value)} in {text}", partial(_without, part="values", place=place)
        case ast.If(orelse=[]):
            yield f"without {text}", lambda _: None
        case ast.IfExp():
            yield f"always {ast.unparse(node.body)} in {text}", lambda one: one.body
            yield f"always {ast.unparse(node.orelse)} in {text}", lambda one: one.orelse
        case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
            yield f"twice {text}", _with_two
        case ast.For():
            yield f"once {text}", lambda one: _with(one, body=[*one.body, ast.Break()])
        case ast.Call(func=ast.Attribute(attr="push" | "without_head" | "without_last")):
            yield f"twice {text}", lambda one: _with(one, func=_with(one.func, value=copy.deepcopy(one)))
        case ast.Call(func=ast.Attribute(attr="map", value=members), args=[change, *context]):
            names = [ast.unparse(part) for part in (members, change)]
            given = "".join(f", {ast.unparse(part)}" for part in context)
            one_only = f"{names[0]}.put(0, {names[1]}({names[0]}.get(0){given}))"
            yield f"for one {text}", lambda _: ast.parse(one_only, mode="eval").body
        case ast.Call(func=ast.Attribute(attr="_replace") | ast.Name(id="with_changes") as changer, keywords=keywords):
            # A part of a state is called as its class: `state.permits`, Permits.  Else: the only one with all fields.
            kind = ast.unparse(changer.value).rpartition(".")[2] if isinstance(changer, ast.Attribute) else ""
            named = {keyword.arg for keyword in keywords if keyword.arg is not None}
            classes = [twins[kind]] if kind in twins else [each for each in twins.values() if named <= each.keys()]
            twin_of = classes[0] if len(classes) == 1 else {}
            for place, keyword in enumerate(keywords):
                if keyword.arg is None:
                    continue
                yield f"without {keyword.arg} in {text}", partial(_without, part="keywords", place=place)
                twin = twin_of.get(keyword.arg)
                if twin is not None and twin not in named:
                    told = f"{twin} for {keyword.arg} in {text}"
                    yield told, partial(_renamed, place=place, name=twin)
        case _:
            return


def _with(node: Any, **changes: object) -> Any:
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _with_two(node: Any) -> Any:
    return _with(node, right=ast.Constant(2))


def _without(node: Any, part: str, place: int) -> Any:
    left = [one for number, one in enumerate(getattr(node, part)) if number != place]
    return left[0] if part == "values" and len(left) == 1 else _with(node, **{part: left})


def _renamed(node: Any, place: int, name: str) -> Any:
    keywords = [ast.keyword(name, one.value) if at == place else one for at, one in enumerate(node.keywords)]
    return _with(node, keywords=keywords)


class _Changer(ast.NodeTransformer):
    """Changes one node."""

    def __init__(self, target: ast.AST, change: Callable[[Any], Any]) -> None:
        self._target = target
        self._change = change

    def visit(self, node: ast.AST) -> Any:
        if node is not self._target:
            return self.generic_visit(node)
        changed = self._change(node)
        return ast.Pass() if changed is None and isinstance(node, ast.stmt) else changed


def _field_twins(trees: Iterable[ast.Module]) -> Twins:
    """For each field the next one of the same type, and the first after the last."""
    found: Twins = {}
    for each in [each for tree in trees for each in tree.body]:
        if isinstance(each, ast.ClassDef) and any(ast.unparse(base) == "NamedTuple" for base in each.bases):
            by_type: dict[str, list[str]] = {}
            for field in each.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    by_type.setdefault(ast.unparse(field.annotation), []).append(field.target.id)
            rows = [zip(names, names[1:] + names[:1], strict=True) for names in by_type.values()]
            found[each.name.lower()] = {name: twin for row in rows for name, twin in row}
    return found


def _reached(functions: dict[str, ast.FunctionDef], start: str) -> set[str]:
    """The names of those functions that are called from here, directly or by others."""
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in found:
            found.add(name)
            waiting += [node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)]
    return found


def mistakes_of(model: str) -> list[Mistake]:
    """All mistakes in the actions of a model, in the order of its text."""
    return list(_mistakes_in(model, importlib.import_module(f"permitflow_model.{model}").SYSTEM))


def _mistakes_in(model: str, system: Any) -> Iterator[Mistake]:
    trees = {file: ast.parse(inspect.getsource(importlib.import_module(file))) for file in _files_of(system)}
    functions = {each.name: each for tree in trees.values() for each in _functions_in(tree)}
    actions: dict[str, set[str]] = {}
    for action in system.actions:
        for name in _reached(functions, action.perform.__name__):
            actions.setdefault(name, set()).add(action.name)
    # What is no part of an action may be part of an invariant, and then of what is asked of each action.
    others = [each for name, each in functions.items() if name not in actions]
    shared = {node.id for each in others for node in ast.walk(each) if isinstance(node, ast.Name)}
    everything = {action.name for action in system.actions}
    twins = _field_twins(trees.values())
    for file, tree in trees.items():
        if _first_made_of(file) not in (None, system.module):
            continue
        for function in [each for each in _functions_in(tree) if each.name in actions and each.name != "initial"]:
            asked = frozenset(everything if function.name in shared else actions[function.name])
            met: Counter[str] = Counter()
            for node in [node for statement in function.body for node in ast.walk(statement)]:
                for words, change in _changes(node, twins):
                    met[words] += 1
                    told = words if met[words] == 1 else f"{words} ({met[words]})"
                    make = partial(_changed_source, tree, node, change)
                    yield Mistake(model, tuple(trees), file, function.name, told, make, asked)


def _first_made_of(file: str) -> str | None:
    """The first model of whose specification the file is a part: its mistakes are tried there, and nowhere else."""
    names = {name: [f"permitflow_model.{snake_case(part)}" for part in parts_of(name)] for name in systems()}
    return next((name for name, files in names.items() if file in files), None)


def _files_of(system: Any) -> list[str]:
    """The modules with the system's actions: those of its specification, as they are extended, and of the kernel."""
    parts = [f"permitflow_model.{snake_case(part)}" for part in reversed(parts_of(system.module))]
    kernel = sorted({action.perform.__module__ for action in system.actions} - set(parts))
    return kernel + parts


def _functions_in(tree: ast.Module) -> list[ast.FunctionDef]:
    return [each for each in tree.body if isinstance(each, ast.FunctionDef)]


def _changed_source(tree: ast.Module, node: ast.AST, change: Callable[[Any], Any]) -> str:
    memo: dict[int, Any] = {}
    changed = copy.deepcopy(tree, memo)
    return ast.unparse(ast.fix_missing_locations(_Changer(memo[id(node)], change).visit(changed)))


# Trying them.


def judge(mistake: Mistake) -> str:
    """What notices the mistake; "survived" if nothing does."""
    mistaken = _functions_with(mistake)
    with _made(mistake, mistaken):
        found = _noticed_by(mistake, "frame")
    if found in (None, *WEAK):
        found = _difference(mistake, mistaken)
    if found is not None:
        return found
    with _made(mistake, mistaken):
        return _noticed_by(mistake) or SURVIVED


@contextmanager
def _made(mistake: Mistake, mistaken: Mapping[str, Any]) -> Iterator[None]:
    """Make the mistake for the block: the function has the other code, wherever it is known."""
    function = inspect.unwrap(vars(sys.modules[mistake.file])[mistake.function])
    right, function.__code__ = function.__code__, inspect.unwrap(mistaken[mistake.function]).__code__
    any_beginning.cache_clear()
    try:
        yield
    finally:
        function.__code__ = right
        any_beginning.cache_clear()


def _noticed_by(mistake: Mistake, end: str = "") -> str | None:
    """The first theorem that is refuted, of those whose name has this end; else the strongest of ``WEAK``, if any."""
    registered = importlib.import_module(f"permitflow_model.{mistake.model}").REGISTERED
    names = {action.name for action in registered.system.actions}
    weak = set()
    for theorem in registered.load_theorems():
        if theorem.expected != "proved" or not theorem.id.endswith(end):
            continue
        for obligation in theorem.obligations:
            about = re.sub(r"^(kept by|guard of) |\(.*\)$", "", obligation.name)
            if not isinstance(obligation, SymbolicObligation) or (about in names and about not in mistake.actions):
                continue
            try:
                found = decide(obligation.claim)
            except (EmptyQueueError, NoMemberError):
                weak.add(REFUSED)
            except Exception:  # what the prover cannot ask refutes nothing
                weak.add(UNANSWERED)
            else:
                if found.outcome == "refuted":
                    return str(theorem.id)
                if found.outcome == "unknown" or found.reached == 0:
                    weak.add(UNANSWERED if found.outcome == "unknown" else SAYS_NOTHING)
    return min(weak, key=WEAK.index, default=None)


def _difference(mistake: Mistake, mistaken: Mapping[str, Any]) -> str | None:
    """That no step of the mistaken model differs from the model's in any state of the invariant; None if one does."""
    registered = importlib.import_module(f"permitflow_model.{mistake.model}").REGISTERED
    proofs = registered.theorems.partition(":")[0]
    parts = [vars(sys.modules[name]) for name in sorted(sys.modules) if f"{name}.".startswith(f"{proofs}.")]
    chapter = next(each for part in parts for each in part.values() if isinstance(each, Chapter))
    # Actions that the theorems leave out may differ, too.
    subject = replace(chapter.subject, system=registered.system)
    given: dict[str, None] = {}
    for action in subject.system.actions:
        if action.name in mistake.actions:
            try:
                found = decide(partial(_does_the_same, subject, action, mistaken[action.perform.__name__]))
            except Exception:  # what the prover cannot ask is not the same
                return None
            if found.outcome != "proved" or found.reached == 0:
                return None
            given |= dict.fromkeys(found.given.facts if found.given else ())
    return f"{EQUAL} where {', '.join(given)}" if given else EQUAL


def _functions_with(mistake: Mistake) -> dict[str, Any]:
    """The names of the model's files.  Functions that do not come to the mistake are the model's own: so are the sums
    that a symbolic queue has by them."""
    sources = {file: inspect.getsource(sys.modules[file]) for file in mistake.files} | {mistake.file: mistake.make()}
    trees = {file: ast.parse(source) for file, source in sources.items()}
    functions = {each.name: each for tree in trees.values() for each in _functions_in(tree)}
    changed: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for file, tree in trees.items():
        tree.body = [each for each in _functions_in(tree) if mistake.function in _reached(functions, each.name)]
        names = vars(sys.modules[file]) | changed
        exec(compile(tree, file, "exec"), names)
        changed |= {each.name: names[each.name] for each in tree.body if isinstance(each, ast.FunctionDef)}
        found |= names
    return found


def _does_the_same(subject: Any, action: Any, twin: Callable[..., Any]) -> bool:
    before, arguments, parameters = subject.any_call(action.name)
    # A step that changes nothing is none: TLA+ lets any step stutter.
    steps = [_after(perform, before, parameters, *arguments) or before for perform in (action.perform, twin)]
    return is_same_state(*(subject.looked_at(state, parameters) for state in steps))


def _after(perform: Callable[..., Any], *arguments: Any) -> Any:
    """None: the step is not possible."""
    try:
        return perform(*arguments)
    except Disabled:
        return None


def _try(mistake: Mistake, results: int) -> None:
    """In a process of its own, whose processor time is limited."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    os.write(results, json.dumps(judge(mistake)).encode())


class Answers:
    """What was found before, in files named by the texts that it depends on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts: dict[str, str] = {}

    def find(self, mistake: Mistake) -> str | None:
        """The answer; None if this was never asked."""
        file = self._file(mistake)
        return file.read_text("utf-8") if file.exists() else None

    def keep(self, mistake: Mistake, answer: str) -> None:
        """Write it down."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file(mistake).write_text(answer, "utf-8")

    def _file(self, mistake: Mistake) -> Path:
        if mistake.model not in self._texts:
            registered = importlib.import_module(f"permitflow_model.{mistake.model}").REGISTERED
            start = (f"permitflow_model.{mistake.model}", registered.theorems.partition(":")[0])
            files = [file for file in sorted(_imported(*start)) if PROVER not in file.parents]
            self._texts[mistake.model] = "".join(file.read_text("utf-8") for file in files)
        depends_on = (self._texts[mistake.model], mistake.file, str(mistake))
        return self._folder / hashlib.sha256(repr(depends_on).encode()).hexdigest()


def _imported(*modules: str) -> set[Path]:
    """The files of these modules of ours, and of all that they import."""
    found, waiting = set(), list(modules)
    while waiting:
        path = waiting.pop().replace(".", "/")
        for file in (folder / f"{path}{end}" for folder in PACKAGES for end in (".py", "/__init__.py")):
            if file.exists() and file not in found:
                found.add(file)
                for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                    if isinstance(node, ast.ImportFrom) and node.module:
                        waiting += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def verdicts(mistakes: list[Mistake], jobs: int, *, anew: bool = False) -> Iterator[tuple[Mistake, str]]:
    """What notices each, as soon as it is known; ``anew``: whatever was found before."""
    answers = Answers(ANSWERS)
    for model in {mistake.model for mistake in mistakes}:
        # Imported once, for all processes.
        importlib.import_module(f"permitflow_model.{model}").REGISTERED.load_theorems()
    running: dict[int, tuple[Mistake, int]] = {}
    waiting: list[Mistake] = []
    for mistake in reversed(mistakes):
        if (found := None if anew else answers.find(mistake)) is None:
            waiting.append(mistake)
        else:
            yield mistake, found
    while waiting or running:
        while waiting and len(running) < jobs:
            mistake = waiting.pop()
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reading)
                try:
                    _try(mistake, writing)
                finally:
                    os._exit(0)
            os.close(writing)
            running[child] = (mistake, reading)
        child, _ = os.wait()
        mistake, reading = running.pop(child)
        with os.fdopen(reading, "rb") as told:
            answer = told.read()
        found = json.loads(answer) if answer else f"nothing in {LIMIT_SECONDS} s"
        answers.keep(mistake, found)
        yield mistake, found


def known_survivors(path: Path) -> dict[str, str]:
    """Mistakes that are known to survive, with the reason."""
    entries = tomllib.loads(path.read_text("utf-8")).get("survivor", [])
    return {mistake: entry["reason"] for entry in entries for mistake in entry["mistakes"]}


def main() -> int:
    """Try them, and print what notices each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="files of models, without .py (default: all)")
    parser.add_argument("--sample", type=int, metavar="N", help="try this many only, and none of the known survivors")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="draws the sample")
    parser.add_argument("--only", default="", metavar="TEXT", help="try those with this text only")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N", help="at once")
    parser.add_argument("--list", action="store_true", help="print the mistakes, and try none")
    parser.add_argument("--anew", action="store_true", help="ask also what was answered before")
    parser.add_argument("--write", action="store_true", help="write the rows of these models into docs/claims.md")
    parser.add_argument("--known", type=Path, default=KNOWN, metavar="FILE", help="the list of known survivors")
    options = parser.parse_args()

    names = sorted(snake_case(name) for name, registered in systems().items() if registered.theorems)
    if wrong := sorted(set(options.models) - set(names)):
        parser.error(f"no model is called {wrong[0]!r}; there are {', '.join(names)}")
    if options.write and (options.only or options.sample is not None):
        parser.error("--write is for all mistakes of a model")
    known = known_survivors(options.known)
    chosen = [one for model in options.models or names for one in mistakes_of(model) if options.only in str(one)]
    if options.sample is not None:
        others = [one for one in chosen if str(one) not in known]
        chosen = random.Random(options.seed).sample(others, min(options.sample, len(others)))
    if options.list:
        print(*chosen, sep="\n")
        return 0
    started, wrong_answers = time.monotonic(), 0
    rows: dict[str, str] = {}
    for model in [name for name in names if any(one.model == name for one in chosen)]:
        kinds: Counter[str] = Counter()
        by: Counter[str] = Counter()
        mistakes = [one for one in chosen if one.model == model]
        for mistake, found in verdicts(mistakes, options.jobs, anew=options.anew):
            kind = _kind(found)
            kinds[kind] += 1
            by[found] += 1
            if (kind == SURVIVED) != (str(mistake) in known):
                told = found if kind == SURVIVED else f"noticed, but listed as a survivor: {found}"
                print(f"{mistake}  [{told}]", flush=True)
                wrong_answers += 1
        told = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        print(f"{model}: {len(mistakes)} mistakes: {told}", flush=True)
        print("  by " + ", ".join(f"{answer} {number}" for answer, number in by.most_common()), flush=True)
        rows[model] = _cells(f"`{model}`", len(mistakes), *(kinds[kind] or "" for kind in KINDS))
    print(f"{len(chosen)} mistakes, {wrong_answers} survived, {time.monotonic() - started:.0f} s")
    if options.write and not wrong_answers:
        text = DOCUMENT.read_text("utf-8")
        kept = {line.split("`")[1]: line for line in text.partition(MARK)[2].splitlines() if line.startswith("| `")}
        table = [_cells("Model", "mistakes", *KINDS), _cells(*["---"] * (len(KINDS) + 2))]
        table += [row for _, row in sorted((kept | rows).items())]
        DOCUMENT.write_text(pasted(text, MARK, "\n{}\n\n".format("\n".join(table))), "utf-8")
    return 1 if wrong_answers else 0


KINDS = ("frame", "another theorem", SAYS_NOTHING, REFUSED, EQUAL, f"{EQUAL} where", SURVIVED)
"""The kinds of answers: those that notice, those that find no mistake, and the last."""


def _cells(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _kind(found: str) -> str:
    if found in KINDS:
        return found
    if found == UNANSWERED or found.startswith("nothing in"):
        return SURVIVED
    if found.startswith(EQUAL):
        return f"{EQUAL} where"
    return "frame" if found.endswith("frame") else "another theorem"


if __name__ == "__main__":
    sys.exit(main())
