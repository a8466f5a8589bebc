"""How many rows Spark hides between a reader and a consumer that has stalled."""
