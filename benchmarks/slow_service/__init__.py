"""A slow service between two Spark jobs, behind a queue in memory and behind an exchange: docs/start/tutorial.md."""
