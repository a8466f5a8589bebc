"""Committed generated code is what the definition in proto/ generates."""

from pathlib import Path

import pytest

GENERATED = ("exchange_pb2.py", "exchange_pb2.pyi")
PACKAGE = Path("permitflow/wire/v1")


def generate(definition: Path, into: Path) -> None:
    """Run the generator on one file."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    arguments = [f"-I{definition.parents[3]}", f"--python_out={into}", f"--pyi_out={into}", str(definition)]
    assert protoc.main(["protoc", *arguments]) == 0


@pytest.mark.parametrize("name", GENERATED)
def test_the_generated_code_is_up_to_date(repository: Path, tmp_path: Path, name: str) -> None:
    generate(repository / "proto" / PACKAGE / "exchange.proto", tmp_path)
    assert (repository / "impl" / PACKAGE / name).read_text() == (tmp_path / PACKAGE / name).read_text()


def test_a_changed_definition_would_be_noticed(repository: Path, tmp_path: Path) -> None:
    changed = tmp_path / "proto" / PACKAGE / "exchange.proto"
    changed.parent.mkdir(parents=True)
    text = (repository / "proto" / PACKAGE / "exchange.proto").read_text()
    changed.write_text(text.replace("bool probe = 9;", "bool probe = 16;"))
    generate(changed, tmp_path)
    assert (repository / "impl" / PACKAGE / GENERATED[0]).read_text() != (tmp_path / PACKAGE / GENERATED[0]).read_text()
