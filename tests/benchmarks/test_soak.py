"""The judge of a soak finds what grows, and nothing else; also in a real run of seconds."""

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import pytest

from benchmarks.harness import Partner, PartnerFailedError
from benchmarks.soak import __main__ as soak
from benchmarks.soak.figures import FIGURES, Course, found

GUARD_SECONDS = 60.0
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


@pytest.mark.long  # three processes, for some seconds
def test_planted_growth_of_each_kind_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else goes up and down."""
    monkeypatch.setattr(soak, "LANES", {})
    assert soak.main(["--seconds", "1", "--grow", "--picture", f"{tmp_path}/soak.svg"]) == 1
    said = capsys.readouterr().out
    for name in FIGURES.keys() - {"store"}:
        assert f"{name} of the consumers grew by" in said, said


@pytest.mark.long  # three processes, all that goes on in an hour, for some seconds
def test_all_that_goes_on_in_a_soak_keeps_its_promises(tmp_path: Path) -> None:
    results = asyncio.run(soak.run(1.0, grows=False, folder=tmp_path))
    assert (results.broken, results.rounds.keys()) == ([], soak.LANES.keys())


def leave(pipe: Connection) -> None:
    """The work of a process that ends once it is asked for something."""
    pipe.recv()


async def test_a_process_that_ends_is_told_to_who_waits_for_it() -> None:
    with Partner(leave) as partner:
        crew = soak.Crew(partner)
        with pytest.raises(PartnerFailedError):
            await asyncio.wait_for(crew.do("measure"), timeout=GUARD_SECONDS)
