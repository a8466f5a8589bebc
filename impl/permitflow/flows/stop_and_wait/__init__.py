"""Stop-and-wait: one message is out at a time."""
