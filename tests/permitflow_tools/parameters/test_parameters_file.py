"""A description is read as it was meant; what cannot be meant is named with its line, its value and what to write."""

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from permitflow import Oversize
from permitflow.errors import ParametersFileError
from permitflow_tools.parameters.quantities import duration, duration_text, rate, values, whole
from permitflow_tools.parameters.read import Description, read_axis, read_description
from permitflow_tools.simulation.setting import Axis, combinations, varied

# By the reader: what is understood.
UNDERSTOOD: list[tuple[Callable[[object], object], dict[object, object]]] = [
    (duration, {"40ms": 0.04, "1.5s": 1.5, "250us": 250e-6, "250µs": 250e-6, "3 ns": 3e-9, "2min": 120.0, "0": 0.0}),
    (rate, {1_000: 1000.0, "1_000": 1000.0, "1,000": 1000.0, "unlimited": math.inf}),
    (duration_text, {0: "0 s", 0.04: "40 ms", 1.2345: "1.23 s", 250e-6: "250 µs", 3e-9: "3 ns", 1234: "1,234 s"}),  # type: ignore[list-item]
    (duration_text, {0.99999e-3: "1 ms"}),  # type: ignore[list-item]
    (
        partial(values, read=whole),
        {"1,16,256": (1, 16, 256), 7: (7,), "256..2047:x2": (256, 512, 1024), "1..10:+3": (1, 4, 7, 10)},
    ),
    (partial(values, read=duration), {"1ms..4ms:x2": (0.001, 0.002, 0.004), "0..2ms:+1ms": (0, 0.001, 0.002)}),
]


@pytest.mark.parametrize(
    ("read", "pairs"), UNDERSTOOD, ids=["duration", "rate", "text", "rounded", "numbers", "durations"]
)
def test_quantities_are_read_as_people_write_them(
    read: Callable[[object], object], pairs: dict[object, object]
) -> None:
    for given, expected in pairs.items():
        assert read(given) == (expected if isinstance(expected, str) else pytest.approx(expected)), given


REFUSED: list[tuple[Callable[..., object], list[object], str]] = [
    (duration, [40, "40", "40 parsecs", "ms", "-4ms", "", None, "1e3ms"], "must be a duration with its unit, as in"),
    (rate, [0, -1, "fast", True, math.inf, math.nan, None, [1]], "must be rows a second"),
    (rate, [1e-300, "1e-7", "1e16", 10**400], "must be from 1e-06 to 1e+15 rows a second"),
    (read_axis, ["row_permits"], "must be NAME=VALUES, as in row_permits=256..65536:x2"),
    (read_axis, ["row_premits=1"], "'row_premits' cannot be varied; did you mean row_permits?"),
    (read_axis, ["row_permits=1..5", "row_permits=1..5:0"], 'needs a step: "1..5:x2" doubles'),
    (read_axis, ["row_permits=5..1:x2"], "must not end at 1, which is below 5"),
    (read_axis, ["row_permits=1..5:x1", "row_permits=1..5:xtwo"], "must be multiplied by more than 1"),
    (read_axis, ["row_permits=1..5:+0", "row_permits=1,x"], "must be a whole number of at least 1, not"),
    (read_axis, ["row_permits=1..5000000:+1"], "has more than 1,000 values"),
    (read_axis, ["row_permits="], "must name values"),
    (read_axis, ["rtt=0..2ms:x2"], "cannot begin at 0 and be multiplied"),
    (read_axis, ["rtt=1ms..2ms:+0"], "must grow"),
]


@pytest.mark.parametrize(
    ("read", "cases", "complaint"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_impossible_quantities_are_refused(
    read: Callable[[object], object], cases: list[object], complaint: str
) -> None:
    for given in cases:
        with pytest.raises(ValueError, match=re.escape(complaint)):
            read(given)


EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "docs/examples").glob("*.toml"))
LEAST = "[upstream]\nrow_permits = 100\npermit_batch = 10\n\n[chunks]\nrows = 5\n"


def read(folder: Path, content: str) -> Description:
    file = folder / "channel.toml"
    file.write_text(content, encoding="utf-8")
    return read_description(file)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_understood(example: Path) -> None:
    assert read_description(example).setting.sender.row_permits > 0


def test_everything_that_can_be_said_is_heard(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [upstream]
        row_permits = 4_096
        permit_batch = 512
        max_chunk_cost = 1_000
        oversize = "whole"
        barrier_permits = 2
        [downstream]
        row_permits = 2_048
        permit_batch = 256
        flush_idle = true
        [chunks]
        rows = [1, 64]
        weights = [9, 1.5]
        [network]
        forward = "10ms"
        back = "500us"
        rate = 1e6
        [producer]
        rate = "unlimited"
        [consumer]
        rate = 250_000
        [simulation]
        seed = 3
        chunks = 500
        [sweep]
        row_permits = "1024..4096:x2"
        rtt = ["1ms", "2ms"]
        """,
    )
    setting = found.setting
    sender, receiver = setting.sender, setting.receiver
    assert (sender.row_permits, sender.permit_batch, sender.max_chunk_cost) == (4096, 512, 1000)
    assert (sender.oversize, sender.barrier_permits) == (Oversize.WHOLE, 2)
    assert (receiver.row_permits, receiver.permit_batch, receiver.max_chunk_cost) == (2048, 256, 1000)
    assert setting.flush_idle
    assert (setting.forward_seconds, setting.return_seconds) == pytest.approx((0.01, 0.0005))
    assert (setting.producer_rate, setting.consumer_rate, setting.link_rate) == (math.inf, 250_000, 1e6)
    assert setting.chunks.mean == pytest.approx((9 + 64 * 1.5) / 10.5)
    assert (found.seed, found.least_chunks) == (3, 500)
    assert found.axes == [Axis("row_permits", (1024, 2048, 4096)), Axis("rtt", (0.001, 0.002))]


def test_initial_permits_may_be_none_and_follow_the_window(tmp_path: Path) -> None:
    lines = "[upstream]\nrow_permits = 64\ninitial_permits = {}\n[chunks]\nrows = 1\n[sweep]\nrow_permits = [8, 128]"
    found = read(tmp_path, lines.format(0))
    assert (found.setting.sender.initial_permits, found.setting.receiver.initial_permits) == (0, 0)
    found = read(tmp_path, lines.format(32))
    ends = [varied(found.setting, values).sender for values in combinations(found.axes)]
    assert [(end.row_permits, end.initial_permits) for end in ends] == [(8, 8), (128, 32)]


@pytest.mark.parametrize(("given", "there", "back"), [('rtt = "4ms"', 0.002, 0.002), ('one_way = "4ms"', 0.004, 0.004)])
def test_a_delay_is_there_and_back_or_one_way(tmp_path: Path, given: str, there: float, back: float) -> None:
    setting = read(tmp_path, f"{LEAST}[network]\n{given}\n").setting
    assert (setting.forward_seconds, setting.return_seconds) == pytest.approx((there, back))


def test_observed_sizes_are_beside_the_description(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("when,rows\n1,10\n2,30\n3,30\n", encoding="utf-8")
    content = LEAST.replace("rows = 5", 'csv = "sizes.csv"\ncolumn = "rows"')
    assert read(tmp_path, content).setting.chunks.possible == (10, 30)


# What stands in place of a text of LEAST, and the complaint.
MISTAKES = {
    "row_permits = 100": {
        'row_permits = "100"': "line 2: upstream.row_permits must be a number, without quotation marks, not '100'",
        "": "upstream.row_permits is missing; write row_permits = 32_768 below [upstream]",
        "row_permits = 0": "line 2: upstream.row_permits must be a whole number of at least 1, not 0",
        "row_permits = 1.5": "line 2: upstream.row_permits must be a whole number of at least 1, not 1.5",
        f"row_permits = {2**63}": "line 2: upstream.row_permits must be at most 1,000,000,000,000,000, not 92233",
        "row_permits = true": "line 2: upstream.row_permits must be a whole number of at least 1, not true",
        "exchange_initial_permits = 1": "upstream.exchange_initial_permits is unknown; did you mean row_permits?",
    },
    "permit_batch = 10\n": {
        "btach = 10\n": "line 3: upstream.btach is unknown; did you mean permit_batch?",
        "zzz = 10\n": "line 3: upstream.zzz is unknown; known are row_permits, permit_batch, max_chunk_cost, oversize",
        "permit_batch = 100\n": "line 3: upstream.permit_batch must be below row_permits = 100 unless",
        'oversize = "cut"\n': 'line 3: upstream.oversize must be "split" or "whole", not \'cut\'',
        "batch = 10\n": "line 3: upstream.batch is unknown; did you mean permit_batch?",
        "max_chunk_cost = 0\n": "line 3: upstream.max_chunk_cost must be a whole number of at least 1, not 0",
        "initial_permits = -1\n": "line 3: upstream.initial_permits must be a whole number of at least 0",
        "initial_permits = 3\n[downstream]\nrow_permits = 120\n": "line 3: upstream.initial_permits must add up: the "
        "upstream begins with 3 of 100 permits, and the downstream gives 117 more",
        "initial_permits = 101\n": "line 3: upstream.initial_permits must be in 0 .. row_permits = 100",
    },
    "[upstream]": {
        "[upstraem]": "line 1: [upstraem] is unknown; did you mean upstream?",
        "downstream = 3\n[upstream]": "line 1: downstream must be a section, [downstream], not 3",
        "permit_batch = 3\n[upstream]": "line 1: permit_batch belongs below [upstream] or [downstream]",
        "flush_idle = true\n[upstream]": "line 1: flush_idle belongs below [downstream]: write that line",
    },
    "[chunks]\nrows = 5": {"": "[chunks] does not say how large; write rows = 1_024, or"},
    "rows = 5": {
        "rows = 0": "line 6: chunks.rows must name a size above 0: rows have to flow, not [0]",
        'rows = "5"': "line 6: chunks.rows must be whole numbers, not '5'",
        f"rows = [5, {2**63}]": "line 6: chunks.rows must be at most 1,000,000,000,000,000, not 92233",
        "rows = [5, -1]": "line 6: chunks.rows must not be negative, not -1",
        "rows = [5]\nweights = [1, 2]": "line 7: chunks.weights must have 1 value, one for each size",
        "rows = true": "line 6: chunks.rows must be whole numbers, not true",
        "rows = [1, true]": "line 6: chunks.rows must be whole numbers, not [1, true]",
        'rows = 5\n[consumer]\nrate = "100"': "line 8: consumer.rate must be a number, without quotation marks",
        'rows = 5\n[simulation]\nchunks = "9"': "line 8: simulation.chunks must be a number, without quotation marks",
        'rows = 5\n[sweep]\nrow_permits = "9..2"': "sweep.row_permits must not end at 2, which is below 9: write 2",
        "rows = 5\nmean = 3": "line 7: chunks.mean does not belong to rows, which takes rows, weights",
        'rows = 5\ncsv = "x"': "line 5: [chunks] has rows and csv; keep one of them",
        'distribution = "normal"': "line 6: chunks.distribution must be uniform, not",
        'distribution = "uniform"': "chunks.most is missing; write most = 1_024 below [chunks]",
        'distribution = "uniform"\nleast = 9\nmost = 3': "line 8: chunks.most must be at least 9, not 3",
        'csv = "no.csv"': "line 6: chunks.csv cannot be read",
        "rows = 5\n[network]\nrtt = 40": 'line 8: network.rtt must be a duration with its unit, as in "40ms"',
        'rows = 5\n[network]\nrtt = "4ms"\none_way = "2ms"': "line 9: network.one_way must be the only delay",
        'rows = 5\n[network]\nback = "2ms"': "line 8: network.back needs the other way too",
        "rows = 5\n[consumer]\nrate = 0": "line 8: consumer.rate must be rows a second, as in 1_000_000",
        "rows = 5\n[downstream]\nflush_idle = 1": "line 8: downstream.flush_idle must be true or false, not 1",
        "rows = 5\n[downstream]\npermit_batch = 100": "line 8: downstream.permit_batch must be below row_permits = 100",
        "rows = 5\n[downstream]\ninitial_permits = 7": "line 8: downstream.initial_permits must add up: the upstream "
        "begins with 100 of 100 permits, and the downstream gives 93 more",
        'rows = 5\n[sweep]\nrow_permits = "1..2"': 'line 8: sweep.row_permits needs a step: "1..2:x2" doubles',
        "rows = 5\n[simulation]\nseed = 1.5": "line 8: simulation.seed must be a whole number, not 1.5",
        "rows =": "is not valid TOML: Invalid value (at line 6",
        f"deep = {100_000 * '['}": "is not valid TOML: maximum recursion depth exceeded",
    },
}


@pytest.mark.parametrize("old", MISTAKES)
def test_a_mistake_in_a_description_is_named_with_its_line(tmp_path: Path, old: str) -> None:
    assert old in LEAST
    for new, complaint in MISTAKES[old].items():
        with pytest.raises(ParametersFileError) as caught:
            read(tmp_path, LEAST.replace(old, new, 1))
        assert complaint in caught.value.message
        assert caught.value.message.startswith(str(tmp_path / "channel.toml"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("when,rows\n1,10\n", "has the columns when, rows; choose one, as in column = 'when'"),
        ("rows\n10\nten\n", "line 3: rows must be a whole number of at least 0, not 'ten'"),
        ("", "has no column None; it has none"),
        ("rows\n", "must name at least one size"),
        ("rows\n" + 200_000 * "1", "field larger than field limit"),
    ],
)
def test_observed_sizes_that_cannot_be_are_named_with_their_line(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "sizes.csv").write_text(content, encoding="utf-8")
    with pytest.raises(ParametersFileError) as caught:
        read(tmp_path, LEAST.replace("rows = 5", 'csv = "sizes.csv"'))
    assert complaint in caught.value.message


def test_a_file_that_is_not_there_or_no_text_or_has_no_end_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    files = {
        tmp_path / "no.toml": "no.toml: cannot be read: No such file",
        tmp_path / "bytes.toml": "it is not text in UTF-8",
        Path("/dev/zero"): "/dev/zero: is longer than 67,108,864 characters",
    }
    for file, complaint in files.items():
        with pytest.raises(ParametersFileError, match=re.escape(complaint)):
            read_description(file)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert read(tmp_path, f"\ufeff{LEAST}").setting.sender == read(tmp_path, LEAST).setting.sender
