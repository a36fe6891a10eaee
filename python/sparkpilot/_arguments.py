"""What callers give, checked before it reaches the library: each function returns it, or raises in one line."""
from __future__ import annotations

import operator
import os
from typing import Any, Iterable, List, Optional, Union

from sparkpilot._core import InputError


def text(name: str, given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{name}: expected a text, got {_shown(given)}")
    if "\0" in given:
        raise InputError(f"{name}: {_shown(given)} holds a zero byte")
    return given


def path(name: str, given: Any) -> str:
    """A path as text; one that is empty or has a zero byte names nothing."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"{name}: expected a path, got {_shown(given)}")
    words = text(name, os.fspath(given))
    if not words:
        raise InputError(f"{name}: the path is empty")
    return words


def integer(name: str, given: Any, low: int, high: Optional[int] = None) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {_shown(given)}") from None
    if number < low or (high is not None and number > high):
        raise InputError(f"{name}: expected {f'at least {low}' if high is None else f'{low} to {high}'}, got {number}")
    return number


def names(option: str, given: Optional[Union[str, Iterable[str]]]) -> List[str]:
    """One name or several; None: none."""
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise TypeError(f"{option}: expected names, got {_shown(given)}")
    found = list(given)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{option}: expected names, got {_shown(name)}")
    return found


def _shown(given: Any) -> str:
    words = " ".join(repr(given).split())
    return words if len(words) <= 60 else words[:57] + "..."
