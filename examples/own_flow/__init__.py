"""A flow that permitflow does not know: its core, its messages, its agreement, and a run over each kind of channel."""
