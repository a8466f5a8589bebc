"""What a port says of a wrong call; tests/conformance/test_port_machine.py has every state, and the model."""

import pytest

from permitflow.errors import LocalProtocolError
from tests.support.port_cases import OneConnection


def test_a_call_that_breaks_a_rule_says_which_rule() -> None:
    port = OneConnection().port
    with pytest.raises(LocalProtocolError, match="was not asked for an element; look at is_asked first"):
        port.push("element")
    port.pull()
    with pytest.raises(LocalProtocolError, match="has already asked"):
        port.pull()
    assert "Pulling" in repr(port)
