"""A page of a running exchange, which ``permitflow serve --ui`` serves."""
