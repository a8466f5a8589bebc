"""The kinds of channels of an exchange: those read once, and those that keep their rows."""
