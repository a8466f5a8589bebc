"""The common parts of all models: actions and guards, queues, the explorer.  Nothing here depends on a protocol."""
