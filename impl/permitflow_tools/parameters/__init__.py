"""A channel described in a TOML file: both ends, chunks, network, producer, consumer; read and checked key by key."""
