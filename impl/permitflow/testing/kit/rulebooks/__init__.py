"""What the kit knows of each protocol, in a file named after its flow, with a ``RULEBOOK``."""
