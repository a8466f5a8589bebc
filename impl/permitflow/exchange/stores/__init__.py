"""The stores of channels' rows: in memory, or on disk."""
