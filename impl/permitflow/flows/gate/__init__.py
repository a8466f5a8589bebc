"""The gate: several inputs of one consumer, with credit, a shared pool and aligned barriers."""
