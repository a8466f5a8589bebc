"""The looks of systems by their TLA+ modules."""

from collections.abc import Callable, Mapping
from functools import cache

from permitflow_model.registry import systems
from permitflow_tools.explain.look import Look


def _demand() -> Look:
    from permitflow_tools.explain.looks.demand import LOOK

    return LOOK


def _grpc_call() -> Look:
    from permitflow_tools.explain.looks.grpc_call import LOOK

    return LOOK


def _input_gate() -> Look:
    from permitflow_tools.explain.looks.input_gate import LOOK

    return LOOK


def _permit_channel() -> Look:
    from permitflow_tools.explain.looks.permit_channel import LOOK

    return LOOK


def _spark_micro_batch() -> Look:
    from permitflow_tools.explain.looks.spark_micro_batch import LOOK

    return LOOK


def _squelch() -> Look:
    from permitflow_tools.explain.looks.squelch import LOOK

    return LOOK


LOOKS: Mapping[str, Callable[[], Look]] = {
    "Demand": _demand,
    "GrpcCall": _grpc_call,
    "InputGate": _input_gate,
    "PermitChannel": _permit_channel,
    "SparkMicroBatch": _spark_micro_batch,
    "Squelch": _squelch,
}
"""Systems with a look of their own; it is imported on first use."""


@cache
def look_of(module: str) -> Look:
    """The look of the system of a TLA+ module: its own, or what all systems have.

    Raises:
        KeyError: there is no such system.
    """
    return LOOKS[module]() if module in LOOKS else Look(systems()[module].system)
