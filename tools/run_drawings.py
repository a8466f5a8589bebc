"""Draw the runs of docs/protocols/: the shortest counterexamples of models of the manifest, as storyboards."""

from pathlib import Path

from permitflow_model.exploration import explore_model, parameters_for
from permitflow_model.manifest import Model, read_manifest
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.run import Run, Verdict
from permitflow_tools.explain.run_page import storyboard

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
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


def main() -> None:
    models = read_manifest()
    for name in DRAWN:
        (FOLDER / f"{name}.svg").write_text(drawing_of(models[name]), encoding="utf-8")


if __name__ == "__main__":
    main()
