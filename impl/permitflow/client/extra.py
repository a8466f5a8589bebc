"""Imported first by its package: is the extra there?  gRPC itself is loaded for addresses that ask for it."""

from permitflow.opening import require_extra

require_extra("grpc", "pyarrow")
