"""A symbolic queue takes its sums apart at either end, which is right if adding is associative."""

from collections.abc import Callable
from typing import Any

import pytest

from permitflow_model import hash_dispatch, mute_links, permit_channel, squelch
from permitflow_model.kernel.queue import larger
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import any_like, assume, equal

SUMS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "larger": (larger, 0),
    "permits": (permit_channel.plus, permit_channel.NOTHING),
    "tails": (hash_dispatch.tails, hash_dispatch.NOTHING),
    "words": (mute_links.Word.then, mute_links.NO_WORD),
    "lines": (mute_links.Line.then, mute_links.NO_LINE),
    "squelch": (squelch.followed_by, squelch.NO_WORDS),
}


@pytest.mark.parametrize("name", SUMS)
def test_adding_is_associative_and_nothing_adds_nothing(name: str) -> None:
    plus, nothing = SUMS[name]

    def natural(part: str) -> Any:
        value = any_like(nothing, part)
        for number in value if isinstance(value, tuple) else (value,):
            assume(number >= 0)
        return value

    def adds_up() -> bool:
        one, two, three = map(natural, ("one", "two", "three"))
        return equal((plus(plus(one, two), three), plus(one, nothing)), (plus(one, plus(two, three)), one))

    assert decide(adds_up).outcome == "proved"
