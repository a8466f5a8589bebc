"""Audits recorded runs of any size: what each event does to its end's books, and whether the two ends agree.

A trace of a billion events does not fit a machine, but what has to be known of a part of it does: a *summary*, and
summaries of neighbouring parts combine into that of both.  So each row group of each file is looked at by itself,
anywhere, and the summaries meet at one place.

``trace validate`` replays the specification and knows everything; an audit checks what is linear in the events.
``Clause`` says what that is.
"""

from permitflow.audit.findings import Audit, ChannelAudit, Clause, Violation
from permitflow.audit.merging import audit_files

__all__ = ["Audit", "ChannelAudit", "Clause", "Violation", "audit_files"]
