# The native module of route logs and frames. Users import from sparkpilot, sparkpilot.logs and sparkpilot.frames.
import pathlib
from typing import Any, Dict, Iterator, List as ListOf, Tuple, overload

import numpy as np

class Struct:
    """A struct of an event: its fields are attributes.

    Raises AttributeError for a field that does not exist, has no schema in sparkpilot, or is a member of a union of which
    another is set; InputError where the bytes are damaged.
    """
    def __getattr__(self, name: str) -> Any: ...
    def which(self) -> str:
        """The member of the union that is set; of an event its kind, "unknown(151)" for one that sparkpilot's schema does
        not have, with openpilot's ordinal."""
    def to_dict(self, verbose: bool = ...) -> Dict[str, Any]:
        """The struct as dicts, lists, numbers, str and bytes. Fields without a schema are left out; unless verbose, so
        are lists, texts and structs that were never written."""

    def to_bytes(self) -> bytes:
        """Of an event: its message as in an uncompressed log; those of several, one after the other, are a log."""

class List:
    """A list of an event, a sequence; numpy.asarray() takes one of numbers at once."""
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ListOf[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __array__(self, dtype: Any = ..., copy: Any = ...) -> np.ndarray: ...
    def to_list(self, verbose: bool = ...) -> ListOf[Any]:
        """The list with its structs as Struct.to_dict() makes them."""

class Log:
    damage: str
    def __init__(self, path: str) -> None: ...
    @staticmethod
    def of_bytes(data: bytes) -> Log: ...
    def only(self, kind: str) -> None: ...
    def __iter__(self) -> Iterator[Struct]: ...
    def __next__(self) -> Struct: ...

class Video:
    width: int
    height: int
    damage: str
    undecodable: int
    def __init__(self, path: str, pixels: str, start: int, threads: int) -> None: ...
    def __iter__(self) -> Iterator[Tuple[int, np.ndarray]]: ...
    def __next__(self) -> Tuple[int, np.ndarray]: ...

def find_logs(name: str, data: str) -> Tuple[ListOf[pathlib.Path], ListOf[str]]: ...
def find_videos(name: str, camera: str, data: str) -> ListOf[Tuple[int, pathlib.Path]]: ...
