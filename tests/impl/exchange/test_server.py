"""Where an exchange can be served."""

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer


@pytest.mark.parametrize(
    "address",
    [
        "unix:/run/exchange",
        "unix:5",
        "unix-abstract:exchange:5",
        "vsock:2:5",
        "localhost",
        "localhost:http",
        ":5",
        "localhost:65536",
        "\udcff:5",
        "tcp://localhost",
        "a:1,b:2",
    ],
)
def test_what_is_no_address_is_refused_before_anything_listens(address: str) -> None:
    with pytest.raises(InvalidParametersError) as caught:
        ExchangeServer(Exchange(), address)
    assert (caught.value.name, caught.value.value) == ("address", address)


@pytest.mark.parametrize("address", ["localhost:0", "[::1]:0", "unix.example.com:5", "tcp://localhost:0"])
def test_hosts_with_ports_are_addresses(address: str) -> None:
    ExchangeServer(Exchange(), address)
