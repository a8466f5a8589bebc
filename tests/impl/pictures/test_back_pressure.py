"""Back-pressure over time: what is drawn is what was seen."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from permitflow.pictures.plots import back_pressure_figure, read_looks


def look(at_seconds: float, **held_rows: int) -> dict[str, object]:
    """A line of ``permitflow top --json``, as far as it is drawn."""
    flows = [
        {
            "channel": channel,
            "blocked_share": rows / 100,
            "consumer_blocked_share": 0.5,
            "rows_held": rows,
            "row_permits": 100,
            "rows_in_per_second": 10.0 * rows,
        }
        for channel, rows in held_rows.items()
    ]
    return {"at_seconds": at_seconds, "channels": flows}


def heights(axes: Axes) -> list[list[float]]:
    """Of each line."""
    return [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()]


LOOKS = [look(5.0, a=0, b=0), look(6.0, a=10, b=20), look(7.5, a=30, b=40)]


def test_the_drawing_has_both_channels_and_the_bound() -> None:
    figure = back_pressure_figure(LOOKS, ["b", "a"], "Orders")
    above, middle, below = figure.axes
    # The first look has no rates; the next is a second later.
    assert [np.asarray(line.get_xdata()).tolist() for line in below.get_lines()] == [[1.0, 2.5]] * 2
    assert heights(below) == [[200.0, 400.0], [100.0, 300.0]]
    assert [0.2, 0.4] in heights(above)
    assert [100, 100] in heights(middle)
    words = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"a", "b", "bound, 100"} < words
    assert figure.get_suptitle() == "Orders"


def test_a_notebook_shows_it_without_pyplot() -> None:
    figure = back_pressure_figure(LOOKS)
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # what notebooks ask for


def test_a_file_of_top_is_read_without_the_lines_that_say_why_nothing_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "top.jsonl"
    path.write_text("\n".join(map(json.dumps, [LOOKS[0], {"error": "it is gone"}, *LOOKS[1:]])) + "\n")
    assert read_looks(path) == LOOKS


@pytest.mark.parametrize("line", ["{", "[]", '{"event": "traffic"}', "3"])
def test_another_file_is_refused_with_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(f"{json.dumps(LOOKS[0])}\n{line}\n")
    with pytest.raises(ValueError, match=r"other\.jsonl, line 2: this is no line of permitflow top --json"):
        read_looks(path)


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match="needs two looks at least, and here are 1"):
        back_pressure_figure(LOOKS[:1])
    with pytest.raises(ValueError, match="channel 'c' is in none of the looks, which have a, b"):
        back_pressure_figure(LOOKS, ["a", "c"])
