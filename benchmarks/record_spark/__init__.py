"""Two Spark jobs, recorded at all ends and judged."""
