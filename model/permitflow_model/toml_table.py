"""A TOML table that is read key by key and says what is wrong with it."""

from collections.abc import Mapping

from permitflow_model.tla_values import TlaValue

__all__ = ["ManifestError", "Table"]


class ManifestError(ValueError):
    """The manifest, or what is looked for in it, cannot be used; the message says where and why."""


class Table:
    """One table; every key must be known, every value of its type."""

    def __init__(self, content: object, *, where: str, known: set[str]) -> None:
        """Check the keys.

        Raises:
            ManifestError: it is not a table, or has an unknown key.
        """
        if not isinstance(content, dict):
            raise ManifestError(f"{where} must be a table, not {content!r}")
        self.where = where
        self._content: Mapping[str, object] = content
        if unknown := sorted(set(content) - known):
            raise ManifestError(f"{where} has the unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")

    def has(self, key: str) -> bool:
        """Is there a value?"""
        return key in self._content

    def text(self, key: str) -> str:
        """A text that is not empty.

        Raises:
            ManifestError: it is missing or not such a text.
        """
        value = self._content.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ManifestError(f"{self.where} needs a text {key!r}, but it is {value!r}")
        return value

    def positive(self, key: str) -> int:
        """A whole number above 0.

        Raises:
            ManifestError: it is missing or not such a number.
        """
        value = self._content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ManifestError(f"{self.where} needs a whole number {key!r} of at least 1, but it is {value!r}")
        return value

    def flag(self, key: str) -> bool:
        """true or false; false if it is not there.

        Raises:
            ManifestError: it is something else.
        """
        value = self._content.get(key, False)
        if not isinstance(value, bool):
            raise ManifestError(f"{self.where} needs true or false for {key!r}, not {value!r}")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names; empty if it is not there.

        Raises:
            ManifestError: it is something else, or a name stands there twice.
        """
        value = self._content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ManifestError(f"{self.where} needs a list of names for {key!r}, not {value!r}")
        if len(set(value)) < len(value):
            raise ManifestError(f"{self.where} names something twice in {key!r}: {value!r}")
        return tuple(value)

    def values(self, key: str) -> dict[str, TlaValue]:
        """A table of TLA+ values: numbers, texts, true or false, and lists, which are sets.

        Raises:
            ManifestError: it is something else.
        """
        value = self._content.get(key, {})
        if not isinstance(value, dict):
            raise ManifestError(f"{self.where} needs a table for {key!r}, not {value!r}")
        return {name: self._value(name, item) for name, item in value.items()}

    def tables(self, key: str) -> list[dict[str, object]]:
        """A list of tables.

        Raises:
            ManifestError: it is something else, or empty.
        """
        value = self._content.get(key, [])
        if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
            raise ManifestError(f"{self.where} needs at least one [[{key}]]")
        return value

    def named_tables(self, key: str) -> dict[str, object]:
        """Tables by name.

        Raises:
            ManifestError: it is something else.
        """
        value = self._content.get(key, {})
        if not isinstance(value, dict):
            raise ManifestError(f"{self.where} needs tables [{key}.NAME]")
        return value

    def _value(self, name: str, item: object) -> TlaValue:
        match item:
            case bool() | int() | str():
                return item
            case list():
                return frozenset(self._value(name, element) for element in item)
        raise ManifestError(f"{self.where} gives {name} the value {item!r}, which TLA+ does not have")
