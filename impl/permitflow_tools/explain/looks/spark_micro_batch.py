"""A streaming query as a table: the places of its rows, and the content of its logs."""

from permitflow_model.spark_micro_batch import SYSTEM, State
from permitflow_tools.explain.look import Look


class QueryLook(Look):
    """Shows waiting, kept and published rows, and the last batch."""

    def row(self, state: State) -> dict[str, str]:
        """kept: rows that the exchange keeps; batch: the last one's in the offset log; table: those in the sink's."""
        return {
            "driver": state.phase,
            "waiting": f"{state.waiting:,}" if state.waiting else "",
            "kept": f"{state.produced - state.acknowledged:,}",
            "acknowledged": f"{state.acknowledged:,}",
            "batch": f"[{state.start:,}, {state.end:,})" if state.end else "",
            "commit log": ("has it" if state.committed else "not yet") if state.end else "",
            "table": f"{state.output:,}",
        }


LOOK = QueryLook(SYSTEM)
