"""A TOML file as sections that are read key by key; a complaint names the key, the value, the line and what to write.

``permitflow_model.manifest`` reads the manifest of the specification: its values are TLA+ values, and its authors
know the keys.  Here people describe channels of their own: lines, units and the nearest known key matter.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, TypeVar

from permitflow.errors import ParametersFileError

T = TypeVar("T")

OLD_NAMES = {"row_count": "row_permits", "batch": "permit_batch", "max_chunk": "max_chunk_cost"}
"""Former names of constants in files, sweeps and options, each with its present name."""

# Names of the same things elsewhere: in RisingWave's configuration, or in common words.
_OTHER_NAMES = {
    "buf": "row_permits",
    "window": "row_permits",
    "exchange_initial_permits": "row_permits",
    "exchange_batched_permits": "permit_batch",
    "clamp": "max_chunk_cost",
    "exchange_concurrent_barriers": "barrier_permits",
    "sender": "upstream",
    "receiver": "downstream",
    "link": "network",
    "size": "rows",
    "delay": "one_way",
    "latency": "one_way",
}
# A device may have no end.
_MOST_CHARACTERS = 64 << 20
_TABLE = re.compile(r"\s*\[\s*([\w.\"']+)\s*\]")


class Document:
    """A file, and the lines of its sections and keys."""

    def __init__(self, path: Path, known: Collection[str]) -> None:
        """Read it; ``known`` are the sections that there may be.

        Raises:
            ParametersFileError: it cannot be read, is no TOML, or has an unknown section.
        """
        self.path = path
        try:
            with path.open(encoding="utf-8") as file:
                self._text = file.read(_MOST_CHARACTERS + 1)
        except OSError as error:
            self.refuse("", f"cannot be read: {error.strerror or error}")
        except UnicodeDecodeError as error:
            self.refuse("", f"cannot be read: it is no UTF-8 text (byte {error.start})")
        if len(self._text) > _MOST_CHARACTERS:
            self.refuse("", f"is longer than {_MOST_CHARACTERS:,} characters: no description of a channel is")
        try:
            self._content: Mapping[str, object] = tomllib.loads(self._text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            self.refuse("", f"is not valid TOML: {error}")
        for name in self._content:
            if name not in known:
                self.refuse("", f"[{name}] is unknown; {nearest(name, known)}", line=self.line_of(name))

    def section(self, name: str, known: Collection[str]) -> "Section":
        """A section, empty if it is not there.

        Raises:
            ParametersFileError: it is no table, or has an unknown key.
        """
        content = self._content.get(name, {})
        if not isinstance(content, dict):
            self.refuse(name, f"must be a section, [{name}], not {content!r}", line=self.line_of(name))
        return Section(self, name, content, known)

    def refuse(self, key: str, reason: str, *, line: int = 0) -> NoReturn:
        """Refuse a section or a key.

        Raises:
            ParametersFileError: always.
        """
        raise ParametersFileError(file=str(self.path), line=line, key=key, reason=reason)

    def line_of(self, section: str, key: str = "") -> int:
        """The line where a section begins or a key stands; 0 where TOML's other ways of writing hide it."""
        at, line_of_section = "", 0
        for number, line in enumerate(self._text.splitlines(), start=1):
            if table := _TABLE.match(line):
                at = table[1].strip("\"'")
                line_of_section = number if at == section else line_of_section
            name = re.match(r"\s*([\w.\"']+)\s*=", line)
            written = "" if name is None else ".".join(part for part in (at, name[1].strip("\"'")) if part)
            if key and written == f"{section}.{key}":
                return number
            if not key and written.partition(".")[0] == section and not line_of_section:
                line_of_section = number
        return line_of_section


class Section:
    """One table; every key must be known, by its name or by an old one."""

    def __init__(self, document: Document, name: str, content: Mapping[str, object], known: Collection[str]) -> None:
        """Check the keys.

        Raises:
            ParametersFileError: one is unknown, or there twice, by its old name and by its new one.
        """
        self.document = document
        self.name = name
        # By the name of today: the key as it is written.
        self._written: dict[str, str] = {}
        for written in content:
            key = OLD_NAMES.get(written, written)
            if key not in known:
                self._refuse(written, f"is unknown; {nearest(written, known)}")
            if key in self._written:
                self._refuse(written, f"and {self._written[key]} are two names of one number; keep {key}")
            self._written[key] = written
        self._content = {key: content[written] for key, written in self._written.items()}

    def __contains__(self, key: object) -> bool:
        return key in self._content

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def get(self, key: str) -> object:
        """The value as TOML has it; None if it is not there."""
        return self._content.get(key)

    def read(self, key: str, reader: Callable[[object], T]) -> T | None:
        """The value, as ``reader`` understands it; None if it is not there.

        Raises:
            ParametersFileError: the reader raises a ``ValueError``; its text follows the key.
        """
        if key not in self._content:
            return None
        try:
            return reader(self._content[key])
        except ValueError as error:
            self.refuse(key, str(error))

    def required(self, key: str, reader: Callable[[object], T], *, example: str) -> T:
        """The same for a value that must be there.

        Raises:
            ParametersFileError: it is missing, or not what it should be.
        """
        value = self.read(key, reader)
        if value is None:
            self.refuse(key, f"is missing; write {example} below [{self.name}]")
        return value

    def refuse(self, key: str, reason: str) -> NoReturn:
        """Refuse a key.

        Raises:
            ParametersFileError: always.
        """
        self._refuse(self._written.get(key, key), reason)

    def _refuse(self, written: str, reason: str) -> NoReturn:
        self.document.refuse(f"{self.name}.{written}", reason, line=self.document.line_of(self.name, written))


def nearest(name: str, known: Collection[str]) -> str:
    """What may have been meant."""
    close = [_OTHER_NAMES.get(name.lower(), ""), *get_close_matches(name, (*known, *OLD_NAMES))]
    for meant in (OLD_NAMES.get(each, each) for each in close):
        if meant in known:
            return f"did you mean {meant}?"
    return f"known are {', '.join(known)}"
