"""The channels of an exchange: those read once (``bridge_channel``), those that keep rows (``replay_channel``)."""
