"""``permitflow demo jobs``: clients, a master with a queue that drops, workers that pull, and a monitor."""
