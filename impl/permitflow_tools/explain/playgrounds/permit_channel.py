"""The permit channel to play with: the verdict is the formula's, which is proved for all numbers."""

from permitflow_model.permit_channel import Parameters
from permitflow_model.thresholds import decide
from permitflow_tools.explain.looks.permit_channel import LOOK
from permitflow_tools.explain.playground import Knob, Playground, Setting

LARGEST = 5
"""Of the numbers: with larger ones, all states of all choices would not fit into a page."""


def _setting(row_permits: int, permit_batch: int, max_chunk_cost: int, flush_idle: bool) -> Setting:
    decision = decide(row_permits, permit_batch, max_chunk_cost, flush_idle=flush_idle)
    parameters = Parameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost,
        sizes=tuple(range(1, max_chunk_cost + 1)),
        flush_idle=flush_idle,
    )
    safe = decision.safe_max_chunk_cost
    advice = [f"Chunks of at most {safe}"] if safe else []
    if decision.safe_permit_batch:
        advice.append(f"A permit batch of at most {decision.safe_permit_batch}")
    if not flush_idle and max_chunk_cost <= row_permits:
        advice.append("A receiver that returns what it holds when it is idle")
    formula = f"permits = {row_permits}" if flush_idle else f"permits - batch + 1 = {max(0, safe)}"
    explanation = decision.explanation[0].upper() + decision.explanation[1:]
    sentence = f"{explanation}. The formula: a chunk may have at most {formula} rows; the largest has {max_chunk_cost}."
    steps = () if decision.run is None else decision.run.steps
    return Setting(parameters, decision.is_live, sentence, steps, tuple(advice))


PLAYGROUND = Playground(
    name="permit-channel",
    title="The permit channel",
    introduction="A sender may send one row for each permit it holds. The receiver returns permits once it "
    "has consumed a whole batch. Choose the numbers, then the steps: can you make a chunk wait for ever?",
    look=LOOK,
    knobs=(
        Knob("row_permits", "Permits of the channel", range(1, LARGEST + 1), 4),
        Knob("permit_batch", "Permits are returned in batches of", range(1, LARGEST + 1), 3),
        Knob("max_chunk_cost", "Rows of the largest chunk", range(1, LARGEST + 1), 3),
        Knob("flush_idle", "An idle receiver returns what it holds", (False, True), 0),
    ),
    setting=_setting,
)
