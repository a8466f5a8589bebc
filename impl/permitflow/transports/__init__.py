"""How channels reach other processes: the codec, gRPC for asyncio and for blocking callers; needs permitflow[grpc]."""
