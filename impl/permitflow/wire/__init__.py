"""Generated protobuf modules, one package per version of the wire format."""
