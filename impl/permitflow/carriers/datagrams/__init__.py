"""An ordered stream of messages without loss, over a network that loses, doubles and reorders datagrams."""
