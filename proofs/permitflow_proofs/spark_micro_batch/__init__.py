"""Theorems about a streaming query that reads a channel batch by batch, for all parameters."""
