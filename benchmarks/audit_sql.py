"""What an audit asks of the books of each end, in SQL: the peer of ``permitflow.spark.audit``.

One shuffle, one sort and one window answer all of it: the clauses ``Sequence``, ``Bounded``, ``Conservation``,
``GrantsBatched`` and ``Offered`` for chunks and row permits, and ``Cost`` for chunks that are sent.  It does not ask
about barriers and watermarks, nor whether the two ends agree, which takes more.
"""

from collections.abc import Iterable

from benchmarks.recorded_channels import PARAMETERS, Due
from permitflow.audit.findings import Clause

__all__ = ["WINDOW_SQL", "first_due"]

_NOT_ASKED = {Clause.IN_ORDER, Clause.RETURNED}

# The first violation of each end that has any.
WINDOW_SQL = f"""
WITH around AS (
  SELECT channel, `end`, sequence, action, rows, permits_rows, row_permits, inbox_messages, inbox_rows,
    unreturned_permits, LAG(sequence) OVER w AS sequence_before, LAG(row_permits) OVER w AS permits_before,
    LAG(inbox_messages) OVER w AS messages_before, LAG(inbox_rows) OVER w AS rows_before,
    LAG(unreturned_permits) OVER w AS unreturned_before,
    SUM(CASE action WHEN 'OfferChunk' THEN 1 WHEN 'SendChunk' THEN -1 WHEN 'WithdrawChunk' THEN -1 ELSE 0 END)
      OVER (PARTITION BY channel, `end` ORDER BY sequence ROWS UNBOUNDED PRECEDING) AS waiting
  FROM events WINDOW w AS (PARTITION BY channel, `end` ORDER BY sequence))
SELECT channel, `end`, MIN(sequence) FROM around WHERE sequence <> COALESCE(sequence_before, 0) + 1
  OR waiting < 0 OR row_permits < 0 OR row_permits > {PARAMETERS.row_permits} OR inbox_rows > {PARAMETERS.row_permits}
  OR (action = 'SendChunk' AND permits_rows <> GREATEST(1, LEAST(rows, {PARAMETERS.max_chunk_cost})))
  OR row_permits <> permits_before +
     CASE WHEN action = 'AddPermits' THEN permits_rows WHEN action LIKE 'Send%' THEN -permits_rows ELSE 0 END
  OR inbox_messages <> messages_before + CASE action WHEN 'Deliver' THEN 1 WHEN 'Consume' THEN -1 ELSE 0 END
  OR inbox_rows <> rows_before + CASE action WHEN 'Deliver' THEN rows WHEN 'Consume' THEN -rows ELSE 0 END
  OR (action = 'Flush' AND (permits_rows <> unreturned_before OR messages_before <> 0))
  OR unreturned_permits <> CASE action WHEN 'Flush' THEN 0 WHEN 'Consume' THEN
     CASE WHEN unreturned_before + permits_rows >= {PARAMETERS.permit_batch} THEN 0
          ELSE unreturned_before + permits_rows END
     ELSE unreturned_before END
GROUP BY channel, `end`
"""


def first_due(violations: Iterable[Due]) -> dict[tuple[str, str], int]:
    """What the query must find, of all violations that are there: at which event of which end."""
    found: dict[tuple[str, str], int] = {}
    for channel, end, sequence, clause in violations:
        if clause not in _NOT_ASKED:
            found[channel, end] = min(sequence, found.get((channel, end), sequence))
    return found
