"""What is proved of ``PermitChannel.tla``, one file per topic."""
