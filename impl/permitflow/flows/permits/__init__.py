"""The permit flow: a sender spends permits, and the receiver returns them as rows are consumed."""
