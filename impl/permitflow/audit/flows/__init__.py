"""What an audit holds runs against: one file for each protocol, found by its name."""
