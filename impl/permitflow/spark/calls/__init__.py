"""Spark reads and writes the streaming methods of any gRPC service: ``format("permitflow-grpc")``.

Importing this package does not load gRPC: Spark's daemon forks, and gRPC must be loaded in the worker after that.
"""
