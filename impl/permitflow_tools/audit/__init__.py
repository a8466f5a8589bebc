"""Audits recorded runs of any size: each event's effect on its end's ledger, and the agreement of the two ends.

A trace of a billion events does not fit into memory, but a *summary* of each part does, and the summaries of
neighbouring parts combine into that of both.  So each row group of each file is examined by itself, on any machine, and
one process merges the summaries.

``trace validate`` replays the specification and checks all of it; an audit checks the rules that are linear in the
events, which ``Clause`` lists.
"""

from permitflow_tools.audit.findings import Audit, ChannelAudit, Clause, Violation
from permitflow_tools.audit.merging import audit_files

__all__ = ["Audit", "ChannelAudit", "Clause", "Violation", "audit_files"]
