"""Committed generated code is what the definition in proto/ generates."""

from pathlib import Path

import pytest

PACKAGE = Path("permitflow/wire/v1")


def generate(definition: Path, into: Path, *, root: Path | None = None) -> None:
    """Run the generator on one file."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    arguments = [f"-I{root or definition.parents[3]}", f"--python_out={into}", f"--pyi_out={into}", str(definition)]
    assert protoc.main(["protoc", *arguments]) == 0


def test_the_generated_code_is_up_to_date(repository: Path, tmp_path: Path) -> None:
    definitions = sorted((repository / "proto" / PACKAGE).iterdir())
    assert definitions, "there are some"
    for definition in definitions:
        generate(definition, tmp_path)
    generated = {path.name: path.read_text() for path in (tmp_path / PACKAGE).iterdir()}
    assert generated == {path.name: path.read_text() for path in (repository / "impl" / PACKAGE).glob("*_pb2.py*")}
