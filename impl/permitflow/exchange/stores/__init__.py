"""Where channels keep their rows: in memory, or on disk."""
