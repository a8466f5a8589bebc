"""How many rows Spark hides between a reader and a consumer that has stalled."""

FREE_CHANNELS = 4
"""Of each size: channels whose consumer does not stall; the first one warms up."""
