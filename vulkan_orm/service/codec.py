"""Payloads to JSON text and back: exactly, or with an error that names the field."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from pydantic_core import to_json as fast_json

from vulkan_orm.diagnostics import (
    BAD_NAME,
    BAD_OPTION,
    OVERSIZED,
    UNDECODABLE,
    UNSERIALISABLE,
    DecodeError,
    PayloadError,
    UsageError,
)

T = TypeVar("T")
DEFAULT_MAX_BYTES = 1_048_576
# What Python and pydantic read back of an integer, where nobody changed Python's own limit.
MAX_DIGITS = 4300
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_TOO_MANY = b"0" * (MAX_DIGITS + 1)


class Codec(Generic[T]):
    """Writes and reads one type."""

    def __init__(self, kind: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(kind)
        except PydanticUserError as error:
            raise UsageError(
                BAD_OPTION, f"pydantic cannot adapt the payload type {kind!r}: {error}"
            ) from error
        # Past the adapter's own method, which takes as long again to see that no option is given.
        self._read: Callable[[str], T] = self._adapter.validator.validate_json
        self.kind = kind
        self._max_bytes = max_bytes

    def encode(self, value: T) -> str:
        """The value as JSON text.

        :raises PayloadError: VK0020 naming the field, VK0021 when it is too large.
        """
        try:
            valid = self._adapter.validator.validate_python(value)
            written = self._write(valid)
            text = written.decode()
            if (
                "\\u0000" in text
                or "NaN" in text
                or "Infinity" in text
                or ("null" in text and self._hides_null(valid))
                or (len(text) > MAX_DIGITS and _TOO_MANY in written.translate(_DIGITS))
            ):
                text = self._examined(valid, text)
        except PayloadError:
            raise
        except (ValidationError, RecursionError, ValueError) as error:
            raise PayloadError(
                UNSERIALISABLE, f"The payload is unusable: {_place(error)}"
            ) from error
        except Exception as error:
            raise PayloadError(
                UNSERIALISABLE, f"The payload could not be read: {type(error).__name__}."
            ) from error
        size = len(written)
        if size > self._max_bytes:
            raise PayloadError(
                OVERSIZED,
                f"The payload has {size} bytes; {self._max_bytes} are allowed.",
                size=size,
            )
        return text

    def _write(self, valid: T) -> bytes:
        try:
            return self._adapter.serializer.to_json(valid, warnings="error")
        except Exception as error:
            # Half of it may be consumed by now: what follows only looks for the field to name.
            to_json(self._dump(valid), "payload")
            raise PayloadError(UNSERIALISABLE, f"The payload is unusable: {error}") from error

    def _hides_null(self, valid: T) -> bool:
        """Whether a null may stand for something other than a field that is None."""
        return b"null" in self._adapter.serializer.to_json(valid, exclude_none=True)

    def _examined(self, valid: T, text: str) -> str:
        """The text, once it is known that all of it can be stored and comes back as it was."""
        text = to_json(json.loads(text), "payload")
        # Where a type says nothing, pydantic writes null for NaN and infinities.
        for mode in ("json", "python"):
            for path, each in _members(self._adapter.dump_python(valid, mode=mode), "payload"):
                _refuse_infinite(each, path)
        return text

    def _dump(self, valid: T) -> Any:
        try:
            return self._adapter.dump_python(valid, mode="json", warnings="error")
        except PydanticSerializationError as error:
            raise PayloadError(
                UNSERIALISABLE, f"{self._unknown(valid)} is unusable: {error}"
            ) from error

    def _unknown(self, valid: T) -> str:
        """Where a value is that pydantic cannot serialise, as far as it can be told."""
        unknown = object()
        try:
            known = self._adapter.dump_python(valid, fallback=lambda _: unknown, warnings="none")
        except Exception:
            return "The payload"
        found = (path for path, each in _members(known, "payload") if each is unknown)
        return _shown(next(found, "The payload"))

    def decode(self, text: str) -> T:
        """:raises DecodeError: VK0022, naming the field."""
        try:
            return self._read(text)
        # Whatever a validator of the application raises, it is this message's failure alone.
        except Exception as error:
            raise DecodeError(
                UNDECODABLE, f"The stored payload is unusable: {_place(error)}"
            ) from error


def _place(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"]) or "payload"
    return f"{path}: {first['msg']}"


def to_json(document: Any, name: str) -> str:
    """Strict JSON text of plain data.

    :raises PayloadError: VK0020, with the path of what no database keeps: NaN, infinities, NUL
        and lone surrogates.
    """
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        text.encode()
        suspect = "\\u0000" in text
    except (ValueError, TypeError, RecursionError):
        suspect, text = True, ""
    if suspect:
        _refuse_unstorable(document, name)
        if not text:
            raise PayloadError(UNSERIALISABLE, f"{name} cannot be written as JSON.")
    return text


def rows_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """JSON text of rows of plain data, quickly where there is nothing to refuse.

    :raises PayloadError: VK0020, as :func:`to_json` does.
    """
    try:
        text = fast_json(rows).decode()
    except ValueError:
        return to_json(rows, "rows")
    return to_json(rows, "rows") if "\\u0000" in text else text


def _refuse_unstorable(value: Any, path: str, depth: int = 0) -> None:
    if depth > 200:
        raise PayloadError(UNSERIALISABLE, f"{path[:80]}… is nested too deeply.", path=path)
    if isinstance(value, str):
        _refuse_text(value, path)
    elif isinstance(value, float):
        _refuse_infinite(value, path)
    elif isinstance(value, dict):
        for key, member in value.items():
            _refuse_unstorable(key, f"{path} key {key!r}", depth + 1)
            _refuse_unstorable(member, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            _refuse_unstorable(member, f"{path}[{index}]", depth + 1)


def _refuse_infinite(value: object, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise PayloadError(
            UNSERIALISABLE, f"{_shown(path)} is {value}, which JSON cannot hold.", path=path
        )


def _members(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A value and everything in it, each with its path."""
    yield path, value
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _members(member, f"{path}.{key}")
    elif isinstance(value, list | tuple | set | frozenset):
        for index, member in enumerate(value):
            yield from _members(member, f"{path}[{index}]")


def _refuse_text(value: str, path: str) -> None:
    if "\x00" in value:
        raise PayloadError(UNSERIALISABLE, f"{_shown(path)} holds a NUL character.", path=path)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PayloadError(
            UNSERIALISABLE, f"{_shown(path)} holds half a surrogate pair.", path=path
        ) from None


def _shown(path: str) -> str:
    return path.replace("\x00", "\\x00").encode("ascii", "backslashreplace").decode()


def check_text(value: object, name: str, limit: int) -> str:
    """A key: text of 1 to ``limit`` characters that every database keeps.

    :raises PayloadError: VK0020, naming it.
    """
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise PayloadError(UNSERIALISABLE, f"{name} must be text of 1 to {limit} characters.")
    _refuse_text(value, name)
    return value


def check_headers(headers: Mapping[str, str]) -> str:
    """Headers as JSON text: a mapping of text to text."""
    items: Any = headers.items()
    for key, value in items:
        if not (isinstance(key, str) and isinstance(value, str)):
            raise PayloadError(
                UNSERIALISABLE, f"headers.{key} must be text.", path=f"headers.{key}"
            )
    return to_json(dict(headers), "headers")


def check_name(name: object, what: str, limit: int) -> str:
    """A topic's or group's name.

    :raises UsageError: VK0004.
    """
    if not isinstance(name, str) or not 0 < len(name) <= limit or not name.isprintable():
        raise UsageError(BAD_NAME, f"{name!r} cannot name a {what}.", name=name)
    return name
