"""The laws of an audit: one file for each protocol, found by its name."""
