"""A TOML table that is read key by key, so that a key nobody asked for is an error."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from edgec.errors import BoardError

_REQUIRED = object()


class Table:
    """One table of a TOML file; `where` names the file and the table in errors, `page` the page
    that lists its keys.

    Every reader raises BoardError for a value of the wrong type, and for a missing key unless a
    default is given. `finish` raises for keys that were never read.
    """

    def __init__(self, where: str, values: Mapping[str, Any], page: str = "docs/boards.md") -> None:
        self.where = where
        self._page = page
        self._values = values
        self._read: set[str] = set()

    def names(self) -> tuple[str, ...]:
        return tuple(self._values)

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return the value of `key`, of any type."""
        self._read.add(key)
        value = self._values.get(key, default)
        if value is _REQUIRED:
            raise BoardError(f"{self.where}: the key '{key}' is missing")
        return value

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        return str(self._typed(key, default, str, "text"))

    def integer(self, key: str, default: Any = _REQUIRED) -> int:
        return int(self._typed(key, default, int, "a whole number"))

    def number(self, key: str, default: float) -> float:
        """Return a number that is not negative, whole or not."""
        value = self.raw(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise BoardError(f"{self.where}: '{key}' is {value!r}, not a number of at least 0")
        return float(value)

    def boolean(self, key: str, default: Any = _REQUIRED) -> bool:
        return bool(self._typed(key, default, bool, "true or false"))

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.raw(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise BoardError(f"{self.where}: '{key}' is not a list of texts")
        return tuple(values)

    def table(self, key: str, *, optional: bool = False) -> Table:
        """Return a table inside this one; an empty one if it is absent and `optional`."""
        value = self.raw(key, {} if optional else _REQUIRED)
        if not isinstance(value, dict):
            raise BoardError(f"{self.where}: '{key}' is not a table")
        return Table(f"{self.where}: [{key}]", value, self._page)

    def tables(self, key: str) -> tuple[Table, ...]:
        """Return a list of tables (`[[key]]`); empty when the key is absent."""
        values = self.raw(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise BoardError(f"{self.where}: '{key}' is not a list of tables")
        return tuple(Table(f"{self.where}: [[{key}]]", value, self._page) for value in values)

    def scalars(self) -> dict[str, int | str]:
        """Return every key not read so far; each value is an integer or a string."""
        rest: dict[str, int | str] = {}
        for key in self._values:
            if key in self._read:
                continue
            value = self.raw(key)
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise BoardError(f"{self.where}: '{key}' is neither a whole number nor a text")
            rest[key] = value
        return rest

    def all_texts(self) -> dict[str, str]:
        """Return every key; each value is a text."""
        return {key: self.text(key) for key in self._values}

    def finish(self) -> None:
        """Raise BoardError if a key was never read."""
        unknown = [key for key in self._values if key not in self._read]
        if unknown:
            near = difflib.get_close_matches(unknown[0], self._read, n=1)
            raise BoardError(
                f"{self.where}: unknown key '{unknown[0]}'",
                hint=f"did you mean '{near[0]}'?" if near else f"{self._page} lists the keys",
            )

    def _typed(self, key: str, default: Any, kind: type, words: str) -> Any:
        value = self.raw(key, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BoardError(f"{self.where}: '{key}' is {value!r}, not {words}")
        return value
