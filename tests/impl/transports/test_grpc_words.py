"""What goes wrong is in our errors; gRPC's own words on stderr ("Got goaway") are for those who ask for them."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
import permitflow.transports
assert "grpc" not in sys.modules, "gRPC looks at its environment when it is loaded"
import permitflow.transports.grpc_aio
print(os.environ["GRPC_VERBOSITY"])
"""


@pytest.mark.parametrize(("given", "found"), [("", "ERROR"), ("DEBUG", "DEBUG")])
def test_grpc_writes_nothing_but_errors_unless_somebody_wants_more(given: str, found: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    if given:
        environment["GRPC_VERBOSITY"] = given
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found
