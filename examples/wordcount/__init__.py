"""A word count over several processes: a reader that stands still stops the senders (``permitflow demo wordcount``)."""
