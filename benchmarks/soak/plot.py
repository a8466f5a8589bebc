"""The figures of a soak over time: a panel each, a line for each process."""

from pathlib import Path

from benchmarks.soak.figures import FIGURES, WARM_UP_SHARE, Course, Courses

WIDTH_INCHES, PANEL_INCHES = 10.0, 1.9
COLOURS = ("#0b6e6e", "#c2571a", "#5b4b9a")
MINUTE_SECONDS = 60.0


def drawn(courses: Courses, pace: Course, path: Path) -> None:
    """Write the plot; what is left of the line in grey is warm-up, and not judged."""
    from matplotlib import pyplot

    shown = [name for name in FIGURES if any(name in course.figures for course in courses.values())]
    rows = (len(shown) + 2) // 2
    figure, grid = pyplot.subplots(rows, 2, figsize=(WIDTH_INCHES, PANEL_INCHES * rows), sharex=True)
    panels = iter(grid.flat)
    first = next(panels)
    minutes = [at / MINUTE_SECONDS for at in pace.at]
    first.plot(minutes, pace.figures["rows"], color="#555555", linewidth=0.8)
    first.set_title("rows a second", fontsize=9, loc="left")
    for name, panel in zip(shown, panels, strict=False):
        for colour, (process, course) in zip(COLOURS, courses.items(), strict=True):
            if name in course.figures:
                at = [seconds / MINUTE_SECONDS for seconds in course.at]
                panel.plot(at, course.figures[name], color=colour, linewidth=0.8, label=process)
        unit = FIGURES[name].unit
        panel.set_title(f"{name}, {unit}" if unit else name, fontsize=9, loc="left")
    for panel in grid.flat:
        panel.set_ylim(bottom=0)
        panel.axvline(minutes[-1] * WARM_UP_SHARE, color="#bbbbbb", linewidth=0.8)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in grid[-1]:
        panel.set_xlabel("minutes", fontsize=8)
    handles, labels = grid.flat[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), fontsize=8, frameon=False)
    for panel in panels:
        panel.set_visible(False)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
