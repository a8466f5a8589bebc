"""The judge of a soak finds what grows, and nothing else; also in a real run of seconds."""

from random import Random

import pytest

from benchmarks.soak.__main__ import main
from benchmarks.soak.figures import FIGURES, Course, found

SAMPLES = 200
SECONDS_BETWEEN = 18.0
PACE = Course([1.0], {"rows": [1.0]})


def course(name: str, grows_by: float, *, noise: float = 0.0) -> Course:
    """An hour of one figure that grows evenly, with a step in the beginning as of a pool that is filled."""
    dice, made = Random(1), Course()
    for number in range(SAMPLES):
        step = 100.0 if number > SAMPLES / 5 else 0.0
        value = 50.0 + step + grows_by * number / SAMPLES + dice.uniform(-noise, noise)
        made.add(number * SECONDS_BETWEEN, {name: value})
    return made


@pytest.mark.parametrize("name", FIGURES)
def test_even_growth_is_found_and_less_is_allowed(name: str) -> None:
    limit = FIGURES[name].may_grow
    assert [*found({"it": course(name, 0.9 * limit)}, PACE)] == []
    (text,) = found({"it": course(name, 1.2 * limit)}, PACE)
    assert text.startswith(f"{name} of it grew by")


@pytest.mark.parametrize("name", FIGURES)
def test_what_only_goes_up_and_down_is_no_growth(name: str) -> None:
    assert [*found({"it": course(name, 0.0, noise=FIGURES[name].may_grow)}, PACE)] == []


@pytest.mark.parametrize(("last", "words"), [(60.0, []), (40.0, ["the pace fell from 100 to 40 rows a second"])])
def test_a_pace_that_halves_is_found(last: float, words: list[str]) -> None:
    rows = [100.0] * (SAMPLES - SAMPLES // 3) + [last] * (SAMPLES // 3)
    assert [*found({}, Course([*map(float, range(SAMPLES))], {"rows": rows}))] == words


@pytest.mark.long  # three processes, all that goes on in an hour, for some seconds
def test_planted_growth_of_each_kind_is_found(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "1", "--grow", "--picture", f"{tmp_path}/soak.svg"]) == 1
    said = capsys.readouterr().out
    for name in FIGURES.keys() - {"store"}:
        assert f"{name} of the consumers grew by" in said, said
