"""What every model shares: actions and guards, queues, the explorer.  Nothing here knows a protocol."""
