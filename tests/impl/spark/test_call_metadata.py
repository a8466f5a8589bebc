"""Calls carry the metadata that the user states, and secrets come from a file that the error does not show."""

from pathlib import Path

import pytest

from permitflow.errors import InvalidOptionError
from permitflow.spark.calls.metadata import sent_with
from permitflow.spark.calls.options import ReadCallOptions

CALL = {"address": "127.0.0.1:1", "method": "a.B/C", "module": "a_pb2"}
ATTEMPT = (("permitflow-attempt", "3"),)


def test_a_call_carries_what_the_user_states_and_a_file_holds(tmp_path: Path) -> None:
    secrets = tmp_path / "metadata.json"
    secrets.write_text('{"authorization": "Bearer old"}')
    call = ReadCallOptions.parse({**CALL, "metadata": '{"X-Tenant": "north"}', "metadataFile": str(secrets)}).call
    sent = sent_with(call.metadata_file, call.metadata, ATTEMPT)
    assert sent == (*ATTEMPT, ("x-tenant", "north"), ("authorization", "Bearer old"))
    secrets.write_text('{"authorization": "Bearer new"}')
    assert ("authorization", "Bearer new") in sent_with(call.metadata_file, call.metadata, ATTEMPT)
    assert sent_with("", (), ATTEMPT) == ATTEMPT


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "must be a JSON object of texts"),
        (100_000 * "[", "must be a JSON object of texts"),
        ('["x"]', "must be a JSON object of texts"),
        ('{"x": 1}', "must be a JSON object of texts"),
        ('{"x y": "1"}', "keys are of a-z"),
        ('{"x-bin": "1"}', "without grpc- and -bin"),
        ('{"permitflow-job": "1"}', "says which attempt"),
        ('{"x": "\\n"}', "not printable ASCII"),
        ('{"Authorization": "secret"}', "name that with metadataFile"),
    ],
)
def test_wrong_metadata_is_refused_where_it_is_stated(text: str, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words) as caught:
        ReadCallOptions.parse({**CALL, "metadata": text})
    assert caught.value.option == "metadata"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff", b'{"authorization": 5}'])
def test_a_wrong_file_is_named_and_not_shown(tmp_path: Path, content: bytes | None) -> None:
    secrets = tmp_path / "metadata.json"
    if content is not None:
        secrets.write_bytes(content)
    with pytest.raises(InvalidOptionError, match="names a file that") as caught:
        sent_with(str(secrets), (), ATTEMPT)
    assert "5" not in str(caught.value).replace(str(secrets), "")
