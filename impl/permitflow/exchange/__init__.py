"""Named channels between producers and consumers, and the server for them; needs permitflow[grpc]."""
