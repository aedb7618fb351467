"""Payloads to values: bytes, text, JSON, Sparkplug B, dataclasses and pydantic models, or any function."""

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from gateway.consumer.source import DeclarationError

Decode: TypeAlias = type[Any] | types.ModuleType | Callable[[bytes], Any] | Literal["bytes", "json", "sparkplug"]
"""``bytes``, ``str``, ``int``, ``float``, a dataclass, a pydantic model, a function of the payload, ``"json"`` or
``"sparkplug"``, for which the modules ``json`` and ``sparkplug`` stand too."""

_PLAIN: Final = (str, int, float, bool, bytes, dict, list)


class DecodeError(Exception):
    """The payload is not what the handler reads, and why."""


def decoder(decode: Decode) -> Callable[[bytes], Any] | None:
    """What makes the value of a payload; None: the payload itself. Raises DeclarationError.

    The function that comes out raises DecodeError, and a function that was given raises what it does.
    """
    name = decode.__name__ if isinstance(decode, types.ModuleType) else decode
    if name == "bytes" or name is bytes:
        return None
    if name is str:
        return _text
    if decode is int or decode is float:
        return _number(decode)
    if name == "json":
        return _json
    if name == "sparkplug":
        return _sparkplug()
    if isinstance(decode, type):
        return _model(decode)
    if callable(decode):
        return decode
    raise DeclarationError(
        f'decode={decode!r}: expected bytes, str, int, float, "json", "sparkplug", a model class or a function'
    )


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"not UTF-8: {error}") from None


def _number(kind: Callable[[bytes], float]) -> Callable[[bytes], Any]:
    def decode(payload: bytes) -> Any:
        try:
            return kind(payload)
        except ValueError:
            raise DecodeError(f"no number: {_shown(payload)}") from None

    return decode


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from None


def _sparkplug() -> Callable[[bytes], Any]:
    from sparkplug import payload as sparkplug_payload  # protobuf is large
    from sparkplug.model import PayloadError

    def decode(payload: bytes) -> Any:
        try:
            return sparkplug_payload.decode(payload)
        except PayloadError as error:
            raise DecodeError(f"no Sparkplug payload: {error}") from None

    return decode


def _model(model: type[Any]) -> Callable[[bytes], Any]:
    validate = getattr(model, "model_validate_json", None)
    if validate is not None:
        return _validated(validate)
    if not dataclasses.is_dataclass(model):
        raise DeclarationError(
            f"decode={model.__name__}: expected a dataclass, a pydantic model or a function of the payload"
        )

    def decode(payload: bytes) -> Any:
        return _object(model, _json(payload), model.__name__)

    return decode


def _validated(validate: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def decode(payload: bytes) -> Any:
        try:
            return validate(payload)
        except ValueError as error:  # pydantic's errors are ValueErrors
            raise DecodeError(str(error)) from None

    return decode


def _object(model: type[Any], said: object, where: str) -> Any:
    if not isinstance(said, Mapping):
        raise DecodeError(f"{where}: expected an object, not {_shown(said)}")
    hints = get_type_hints(model)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(model):
        if field.name in said and field.init:
            values[field.name] = _value(hints[field.name], said[field.name], f"{where}.{field.name}")
    try:
        return model(**values)
    except (TypeError, ValueError) as error:  # a field is missing, or its own check says no
        raise DecodeError(f"{where}: {error}") from None


def _value(kind: Any, said: object, where: str) -> Any:
    """``said`` as ``kind`` asks for; a kind that JSON does not know is taken as it is."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(inner, said, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _object(kind, said, where)
    if origin is list and isinstance(said, list):
        return [_value(inner[0], item, f"{where}[{i}]") for i, item in enumerate(said)]
    plain = origin or kind
    if plain is float and isinstance(said, int) and not isinstance(said, bool):
        return float(said)
    fits = isinstance(said, plain) and not (plain is int and isinstance(said, bool)) if plain in _PLAIN else True
    if plain is type(None):
        fits = said is None
    if not fits:
        raise DecodeError(f"{where}: expected {getattr(kind, '__name__', kind)}, not {_shown(said)}")
    return said


def _one_of(kinds: tuple[Any, ...], said: object, where: str) -> Any:
    error = DecodeError(f"{where}: {_shown(said)} is none of these")
    for kind in kinds:
        try:
            return _value(kind, said, where)
        except DecodeError as reason:
            error = reason if kind is not type(None) else error
    raise error


def _shown(said: object) -> str:
    text = repr(said)
    return text if len(text) <= 40 else f"{text[:37]}..."
