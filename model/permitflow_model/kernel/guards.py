"""Which guard of an action is false, in the words of the model's own text."""

import ast
import linecache
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from types import FrameType, TracebackType

from permitflow_model.kernel.system import Disabled, require


def false_guard(error: Disabled) -> str:
    """The condition that was required, and the values in it; empty where the text of the model is not at hand."""
    found = false_condition(error)
    if found is None:
        return ""
    condition, frame = found
    values = {ast.unparse(part): _value(part, frame) for part in _parts(condition)}
    told = ", ".join(f"{name} = {value}" for name, value in values.items() if isinstance(value, int | str))
    return f"{ast.unparse(condition)} is false{f' ({told})' if told else ''}"


def false_condition(error: Disabled) -> tuple[ast.expr, FrameType] | None:
    """The condition that was required, and where; None where the text of the model is not at hand."""
    frames = list(_frames(error.__traceback__))
    if len(frames) < 2 or frames[-1].tb_frame.f_code is not require.__code__:
        return None
    place = frames[-2]
    code = place.tb_frame.f_code
    line, _, column, _ = next(islice(code.co_positions(), place.tb_lasti // 2, None))
    # Python may be told to keep no columns (PYTHONNODEBUGRANGES): then the first of the line is taken.
    for (its_line, its_column), condition in _conditions(code.co_filename).items():
        if its_line == line and column in (its_column, None):
            return condition, place.tb_frame
    return None


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


@cache
def _conditions(file: str) -> Mapping[tuple[int | None, int | None], ast.expr]:
    """What a model's text requires, by the line and the column where the call begins: a line may have several."""
    conditions: dict[tuple[int | None, int | None], ast.expr] = {}
    with suppress(SyntaxError):
        for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
            match node:
                case ast.Call(func=ast.Name(id="require"), args=[condition]):
                    conditions[node.lineno, node.col_offset] = condition
    return conditions


def _parts(condition: ast.AST) -> Iterator[ast.expr]:
    """The names, attributes and calls that it compares or combines."""
    if isinstance(condition, ast.Attribute | ast.Call | ast.Name):
        yield condition
        return
    for child in ast.iter_child_nodes(condition):
        yield from _parts(child)


def _value(part: ast.expr, frame: FrameType) -> object:
    """What it was there; guards change nothing, so they may be asked again."""
    with suppress(Exception):
        return eval(compile(ast.Expression(part), "<guard>", "eval"), frame.f_globals, frame.f_locals)
    return None
