"""The stores of channels' rows: in memory (``store``), or durable, in a ``database``: of ``sqlite`` or ``postgres``."""
