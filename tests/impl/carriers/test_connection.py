"""What asks one exchange has one address."""

import pytest

from permitflow.client.health import is_serving
from permitflow.errors import InvalidParametersError


@pytest.mark.parametrize("address", ["a:1,b:2", "tcp://a:1,tcp://b:2"])
def test_health_of_several_addresses_at_once_is_refused_in_words(address: str) -> None:
    with pytest.raises(InvalidParametersError, match="address must be a single host:port here") as caught:
        is_serving(address)
    assert caught.value.value == address
