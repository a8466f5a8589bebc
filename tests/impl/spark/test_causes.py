"""A program finds out which error of this package has ended its job."""

import pytest

from permitflow.errors import ChannelSpentError, PeerGoneError, PermitflowError, RowsLostError
from permitflow.spark import cause_of

TEXT = """[STREAM_FAILED] Query [id = 5, runId = 6] terminated with exception: [PYTHON_DATA_SOURCE_ERROR]
Traceback (most recent call last):
  File "reading.py", line 1, in read_range
permitflow.errors.RowsForgottenError: row 7 of channel 'orders/0' was acknowledged and is forgotten

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "reading.py", line 2, in read_range
permitflow.errors.RowsLostError: consumer 'etl' has lost rows of channel 'orders/0'
 SQLSTATE: XXKST"""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError(TEXT), RowsLostError),
        (RuntimeError("pyspark.errors.X: permitflow.errors.ChannelSpentError: it was read"), ChannelSpentError),
        (PeerGoneError(who="x", reason="y"), PeerGoneError),
        (RuntimeError("permitflow.errors.NoSuchError: y"), None),
        (ValueError("of the user"), None),
    ],
)
def test_the_last_error_in_sparks_text_is_the_cause(error: Exception, kind: type[PermitflowError] | None) -> None:
    assert cause_of(error) is kind
