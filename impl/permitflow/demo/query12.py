"""TPC-H query 12, whole and in two halves: late line items by shipping mode, and the priority of their orders.

The whole text is the benchmark's and is run as it is for comparison; the halves are what the two Spark jobs run on
either side of the exchange.

Source: TPC-H standard specification, section 2.4.12, with the validation parameters MAIL, SHIP, 1994.
"""

from typing import NamedTuple

__all__ = ["LATE_LINE_ITEMS", "PRIORITIES_OF_LATE_ITEMS", "WHOLE_QUERY", "ShippingMode"]


class ShippingMode(NamedTuple):
    """One row of the answer."""

    mode: str
    high_line_count: int
    """Late line items of urgent and of high-priority orders."""
    low_line_count: int
    """All other late line items."""


WHOLE_QUERY = """
    SELECT l_shipmode,
           sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END)
               AS high_line_count,
           sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END)
               AS low_line_count
    FROM orders, lineitem
    WHERE o_orderkey = l_orderkey
      AND l_shipmode IN ('MAIL', 'SHIP')
      AND l_commitdate < l_receiptdate
      AND l_shipdate < l_commitdate
      AND l_receiptdate >= DATE '1994-01-01'
      AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
    GROUP BY l_shipmode
    ORDER BY l_shipmode
"""

LATE_LINE_ITEMS = """
    SELECT l_orderkey, l_linenumber, l_shipmode, l_shipdate, l_commitdate, l_receiptdate
    FROM lineitem
    WHERE l_shipmode IN ('MAIL', 'SHIP')
      AND l_commitdate < l_receiptdate
      AND l_shipdate < l_commitdate
      AND year(l_receiptdate) = 1994
"""

PRIORITIES_OF_LATE_ITEMS = """
    SELECT l_shipmode,
           count_if(o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high_line_count,
           count_if(o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low_line_count
    FROM late_line_items JOIN orders ON o_orderkey = l_orderkey
    GROUP BY l_shipmode
    ORDER BY l_shipmode
"""
