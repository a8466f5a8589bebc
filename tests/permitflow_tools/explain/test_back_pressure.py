"""Back-pressure over time: what is drawn is what was seen."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from permitflow_tools.explain.back_pressure import plot_back_pressure

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # not for each worker that only collects


def look(at_seconds: float, **held_rows: int) -> dict[str, object]:
    """A line of ``permitflow top --json``, as far as it is drawn."""
    flows = [
        {
            "channel": channel,
            "blocked_share": rows / 100,
            "consumer_blocked_share": 0.5,
            "rows_held": rows,
            "window_rows": 100,
            "rows_in_per_second": 10.0 * rows,
        }
        for channel, rows in held_rows.items()
    ]
    return {"at_seconds": at_seconds, "channels": flows}


def heights(axes: "Axes") -> list[list[float]]:
    """Of each line."""
    return [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()]


LOOKS = [look(5.0, a=0, b=0), look(6.0, a=10, b=20), look(7.5, a=30, b=40)]


def written(folder: Path, *lines: object) -> Path:
    path = folder / "top.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_the_drawing_has_both_channels_and_the_bound(tmp_path: Path) -> None:
    """Lines about an exchange that is away are left out."""
    top = written(tmp_path, LOOKS[0], {"error": "it is gone"}, *LOOKS[1:])
    figure = plot_back_pressure(top, ["b", "a"], title="Orders")
    above, middle, below = figure.axes
    # The first look has no rates; the next is a second later.
    assert [np.asarray(line.get_xdata()).tolist() for line in below.get_lines()] == [[1.0, 2.5]] * 2
    assert heights(below) == [[200.0, 400.0], [100.0, 300.0]]
    assert [0.2, 0.4] in heights(above)
    assert [100, 100] in heights(middle)
    words = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"a", "b", "bound, 100"} < words
    assert figure.get_suptitle() == "Orders"


@pytest.mark.parametrize("line", ["{", "[]", '{"event": "traffic"}', "3"])
def test_another_file_is_refused_with_the_line(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, LOOKS[0])
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(ValueError, match=r"top\.jsonl, line 2: this is not a line of permitflow top --json"):
        plot_back_pressure(path)


def test_an_impossible_drawing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="channel 'c' is in none of the looks, which have a, b"):
        plot_back_pressure(written(tmp_path, *LOOKS), ["a", "c"])
    with pytest.raises(ValueError, match="needs two looks at least, and here are 1"):
        plot_back_pressure(written(tmp_path, LOOKS[0]))
