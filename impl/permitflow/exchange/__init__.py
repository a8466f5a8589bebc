"""Named channels that bridge producers and consumers, and the gRPC server around them; needs permitflow[grpc]."""
