"""What every proof shares: symbolic numbers and queues, the explorer of paths, obligations; no protocol."""
