"""The rulebooks of the protocols: one file for each, named after its flow, with a ``RULEBOOK``."""
