"""Draw the runs of docs/protocols/: the shortest counterexamples of models of the manifest; and the README's film."""

from pathlib import Path

from permitflow_model.exploration import explore_model, parameters_for
from permitflow_model.manifest import Model, read_manifest
from permitflow_tools.checking.deciding import answer_for
from permitflow_tools.cli.permits import run_of, setting_of
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.run import Run, Verdict
from permitflow_tools.explain.run_page import film, storyboard

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
FILM = "deadlock-film.svg"
DRAWN = (
    "squelch-one-way",
    "token-bucket-slow",
    "drop-incoming-too-long",
    "conflate-adds-up",
    "ports-end-behind-an-element",
    "mute-set",
    "mute-unmute-lost",
    "mute-scheduler-helper",
    "grpc-call-sent-twice",
    "grpc-call-last-lost",
    "grpc-call-wake-up-lost",
    "grpc-call-two-threads",
)


def drawing_of(model: Model) -> str:
    """The shortest run into what the model is expected to violate."""
    (violation,) = explore_model(model).graph.violations
    run = Run(
        look=look_of(model.module),
        title=model.name,
        verdict=Verdict.VIOLATED,
        sentence=model.reason,
        parameters=parameters_for(model),
        start=violation.start,
        steps=list(violation.steps),
    )
    return storyboard(run)


def film_of_the_readme() -> str:
    """The smallest deadlock that shows why batches matter: 8 permits, batches of 3, chunks of up to 7."""
    return film(run_of(answer_for(setting_of(8, 3, 7, None, flush_idle=False)), with_barriers=False))


def main() -> None:
    (FOLDER / FILM).write_text(film_of_the_readme(), encoding="utf-8")
    models = read_manifest()
    for name in DRAWN:
        (FOLDER / f"{name}.svg").write_text(drawing_of(models[name]), encoding="utf-8")


if __name__ == "__main__":
    main()
