"""librdkafka's mock cluster, by the functions of C that its Python package lacks: brokers that go and come back.

It lives in this process, behind real sockets.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

_PRODUCER = 0


class KafkaCluster:
    """Three brokers."""

    def __init__(self, lib: ctypes.CDLL, handle: int) -> None:
        self._lib, self._handle = lib, handle
        self.servers = bytes(lib.rd_kafka_mock_cluster_bootstraps(handle)).decode()

    def add_topic(self, name: str, partitions: int) -> None:
        """A topic with so many partitions."""
        assert self._lib.rd_kafka_mock_topic_create(self._handle, name.encode(), partitions, 1) == 0

    def stop(self) -> None:
        """All brokers are gone."""
        for broker in (1, 2, 3):
            assert self._lib.rd_kafka_mock_broker_set_down(self._handle, broker) == 0

    def start(self) -> None:
        """They are back, with all that they had."""
        for broker in (1, 2, 3):
            assert self._lib.rd_kafka_mock_broker_set_up(self._handle, broker) == 0


@contextmanager
def kafka_cluster() -> Iterator[KafkaCluster]:
    """A cluster of three brokers whose groups wait for no further member."""
    (path,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka-*")
    lib = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(lib, name).restype = ctypes.c_void_p
    lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    pointers = {
        "rd_kafka_new": [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t],
        "rd_kafka_mock_cluster_new": [ctypes.c_void_p, ctypes.c_int],
        "rd_kafka_mock_cluster_bootstraps": [ctypes.c_void_p],
        "rd_kafka_mock_cluster_destroy": [ctypes.c_void_p],
        "rd_kafka_mock_topic_create": [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int],
        "rd_kafka_mock_broker_set_down": [ctypes.c_void_p, ctypes.c_int32],
        "rd_kafka_mock_broker_set_up": [ctypes.c_void_p, ctypes.c_int32],
        "rd_kafka_mock_group_initial_rebalance_delay_ms": [ctypes.c_void_p, ctypes.c_int32],
        "rd_kafka_destroy": [ctypes.c_void_p],
    }
    for name, types in pointers.items():
        getattr(lib, name).argtypes = types
    client = lib.rd_kafka_new(_PRODUCER, lib.rd_kafka_conf_new(), None, 0)
    handle = lib.rd_kafka_mock_cluster_new(client, 3)
    lib.rd_kafka_mock_group_initial_rebalance_delay_ms(handle, 0)
    try:
        yield KafkaCluster(lib, handle)
    finally:
        lib.rd_kafka_mock_cluster_destroy(handle)
        lib.rd_kafka_destroy(client)
