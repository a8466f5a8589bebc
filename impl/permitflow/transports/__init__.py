"""How channels reach other processes: the codec, gRPC for asyncio and for blocking callers; needs permitflow[grpc]."""

import os

# What goes wrong is in our errors; gRPC's core would say the same on stderr in its own words ("Got goaway"), as
# information.  It looks here once, when it is loaded; whoever has set this, or loads gRPC first, gets what he wants.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

# Else gRPC goes to work again in a child of a process that has used it, and every fifth such child crashes, whatever
# it does.  Read when gRPC is loaded; what its user has chosen stands.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
