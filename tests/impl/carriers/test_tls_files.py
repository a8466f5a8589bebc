"""Files are read again when they have changed."""

import errno
from pathlib import Path

from permitflow.carriers.tls_files import FromFiles


def test_files_that_cannot_be_read_now_are_read_later(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("1")
    errors: list[OSError] = []

    def make() -> str:
        if errors:
            raise errors.pop()
        return file.read_text()

    value = FromFiles([file], make)
    file.write_text("two")
    errors.append(OSError(errno.EMFILE, "Too many open files"))

    assert [value.current(), value.current()] == ["1", "two"]
