"""What the exchange costs a Spark job: source, sink and a whole query, each beside the same without an exchange."""
