"""A TOML file as sections that are read key by key; a complaint names the key, the value, the line and what to write.

``permitflow_model.manifest`` reads the manifest of the specification: its values are TLA+ values, and its authors
know the keys.  Here people describe channels of their own: lines, units and the nearest known key matter.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, TypeVar

from permitflow.errors import ParametersFileError
from permitflow_tools.parameters.quantities import shown

T = TypeVar("T")

# Names of the same things elsewhere: in RisingWave's configuration, or in common words.
_OTHER_NAMES = {
    "batch": "permit_batch",
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
_TABLE = re.compile(r"\s*\[\s*([\w.\"'-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


@dataclass(frozen=True)
class TomlFile:
    """A file that has been read."""

    path: Path
    text: str
    content: Mapping[str, object]

    @property
    def is_graph(self) -> bool:
        """Does it describe a graph of stages, and no channel?"""
        return "stages" in self.content or "arcs" in self.content

    def refuse(self, reason: str, *, key: str = "", line: int = 0) -> NoReturn:
        """Refuse what stands in the file.

        Raises:
            ParametersFileError: always.
        """
        _refuse(self.path, reason, key=key, line=line)

    def line_of(self, section: str, key: str = "") -> int:
        """The line where a section begins or a key stands; 0 where TOML's other ways of writing hide it."""
        at = ""
        for number, line in enumerate(self.text.splitlines(), start=1):
            if table := _TABLE.match(line):
                at = table[1].strip("\"'")
            name = _KEY.match(line)
            written = at if name is None else ".".join(filter(None, (at, name[1].strip("\"'"))))
            if written == f"{section}.{key}" if key else f"{written}.".startswith(f"{section}."):
                return number
        return self.line_of(section) if key else 0


def read_toml(path: Path) -> TomlFile:
    """Read a file.

    Raises:
        ParametersFileError: it cannot be read, or is not TOML.
    """
    text, content = "", {}
    try:
        # Some editors begin a file with a byte order mark.
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(_MOST_CHARACTERS + 1)
        if len(text) > _MOST_CHARACTERS:
            _refuse(path, f"is longer than {_MOST_CHARACTERS:,} characters: no description is")
        content = tomllib.loads(text)
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror or error}")
    except UnicodeDecodeError as error:
        _refuse(path, f"cannot be read: it is not text in UTF-8 (byte {error.start})")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        _refuse(path, f"is not valid TOML: {error}")
    return TomlFile(path, text, content)


def sections_of(file: TomlFile, known: Mapping[str, Collection[str]]) -> "dict[str, Section]":
    """All sections that a file may have, each with the keys that it may have; empty if it is not there.

    Raises:
        ParametersFileError: it has something unknown.
    """
    for name in file.content:
        if name not in known:
            if homes := [f"[{section}]" for section, keys in known.items() if name in keys]:
                below = " or ".join(homes)
                file.refuse(f"belongs below {below}: write that line above it", key=name, line=file.line_of(name))
            file.refuse(f"[{name}] is unknown; {nearest(name, known)}", line=file.line_of(name))
    return {name: Section(file, name, file.content.get(name, {}), keys) for name, keys in known.items()}


def _refuse(path: Path, reason: str, *, key: str = "", line: int = 0) -> NoReturn:
    raise ParametersFileError(file=str(path), line=line, key=key, reason=reason)


class Section:
    """One table; every key is known."""

    def __init__(self, file: TomlFile, name: str, content: object, known: Collection[str]) -> None:
        """Check the keys of what the file says.

        Raises:
            ParametersFileError: it is not a table, or a key is unknown.
        """
        self.path, self._file, self._name = file.path, file, name
        if not isinstance(content, dict):
            file.refuse(f"must be a section, [{name}], not {shown(content)}", key=name, line=file.line_of(name))
        self._content: dict[str, object] = content
        for key in content:
            if key not in known:
                self.refuse(key, f"is unknown; {nearest(key, known)}")

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
            self.refuse(key, f"is missing; write {example} below [{self._name}]")
        return value

    def refuse(self, key: str, reason: str) -> NoReturn:
        """Refuse a key, or the whole section if it is empty.

        Raises:
            ParametersFileError: always.
        """
        full = f"{self._name}.{key}" if key else f"[{self._name}]"
        self._file.refuse(reason, key=full, line=self._file.line_of(self._name, key))


def nearest(name: str, known: Collection[str]) -> str:
    """What may have been meant."""
    others = {other: meant for other, meant in _OTHER_NAMES.items() if meant in known}
    close = get_close_matches(name.lower(), (*others, *known), n=1)
    return f"did you mean {others.get(close[0], close[0])}?" if close else f"known are {', '.join(known)}"
