"""The ledgers of an exchange: kept rows, staged rows, attempts; no I/O."""
