"""What the pipeline computes: all line items that came late, each with the priority of its order.

TPC-H query 12 counts those of two shipping modes in one year.  The consumer counts all of them by mode and year, so
that many rows flow, and each one counts.
"""

import pyarrow as pa

__all__ = ["ALL_LATE_ITEMS", "ANSWER_MODES", "ANSWER_YEAR", "LINE_ITEM_SCHEMA"]

ANSWER_MODES = ("MAIL", "SHIP")
ANSWER_YEAR = 1994

LINE_ITEM_SCHEMA = pa.schema(
    [
        ("l_orderkey", pa.int64()),
        ("l_linenumber", pa.int32()),
        ("l_shipmode", pa.string()),
        ("l_shipdate", pa.date32()),
        ("l_commitdate", pa.date32()),
        ("l_receiptdate", pa.date32()),
    ]
)
"""What the producer sends."""

ALL_LATE_ITEMS = """
    SELECT l_orderkey, l_linenumber, l_shipmode, year(l_receiptdate) AS l_receiptyear,
           o_orderpriority IN ('1-URGENT', '2-HIGH') AS is_high
    FROM lineitem JOIN orders ON o_orderkey = l_orderkey
    WHERE l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
"""
"""The same text for the stream, where ``lineitem`` is what comes from the exchange, and for the files."""
