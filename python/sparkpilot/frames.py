"""Frames of recorded video as NumPy arrays."""
from __future__ import annotations

import dataclasses
import os
import warnings
from typing import Iterator, List, Union

import numpy as np

from sparkpilot._arguments import integer, path, text
from sparkpilot._native import route as _route

__all__ = ["Frame", "FrameReader"]


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """A decoded picture."""

    #: uint8, in memory of its own. "rgb24": [height, width, 3]. "nv12" and "yuv420p": [height * 3 / 2, width], the luma
    #: first; then chroma of half the height and width, U and V in turns, or the plane U and then the plane V.
    image: np.ndarray
    #: Its place in the video, from 0: the segmentId of its encode index in the log.
    index: int
    #: The number of its segment.
    segment: int


class FrameReader:
    """A camera's frames in the order of display, of a video file, a segment or a route.

        for frame in sparkpilot.FrameReader(segment, camera="wide", pix_fmt="nv12"):
            luma = frame.image[:height]

    route: a video (raw HEVC, MPEG-TS, mp4; 8-bit 4:2:0), the folder of a segment or of a route, or a route's name.
    camera: of a folder or a name: "road" (fcamera.hevc), "wide", "driver", or "qcamera" (qcamera.ts).
    pix_fmt: "rgb24" (full-range BT.601, as openpilot's screen interprets the device's pictures), "nv12" or "yuv420p"
        (the video's own bytes).
    start: the index to begin with, of the first segment; decoded from the key frame before it.
    threads: of the decoder, 1 to 16.
    data: the folder in which names are looked up; None: ~/.comma/media/0/realdata.

    Each iteration decodes anew, frame by frame; other Python threads go on meanwhile. A frame that cannot be decoded is
    left out, and later ones keep their index; a RuntimeWarning at the video's end says how many, and what ended it early.
    Raises InputError if there is no such video, or its kind cannot be decoded.
    """

    def __init__(self, route: Union[str, os.PathLike[str]], *, camera: str = "road", pix_fmt: str = "rgb24", start: int = 0,
                 threads: int = 1, data: Union[str, os.PathLike[str], None] = None) -> None:
        self._pix_fmt, self._start = text("pix_fmt", pix_fmt), min(integer("start", start, 0), 2**62)
        self._threads = integer("threads", threads, 1, 16)  # as many as FFmpeg's decoders use at most
        name = path("route", route)
        if os.path.isfile(name):
            self._videos = [(0, name)]
        else:
            self._videos = [(number, os.fspath(file))
                            for number, file in _route.find_videos(name, text("camera", camera), os.fspath(data or ""))]
        first = self._open(0)
        #: Pixels of the first video.
        self.width: int = first.width
        self.height: int = first.height

    def _open(self, place: int) -> _route.Video:
        return _route.Video(self._videos[place][1], self._pix_fmt, self._start if place == 0 else 0, self._threads)

    @property
    def files(self) -> List[str]:
        """The videos that are read."""
        return [file for _, file in self._videos]

    def __iter__(self) -> Iterator[Frame]:
        for place, (number, name) in enumerate(self._videos):
            video = self._open(place)
            for index, image in video:
                yield Frame(image, index, number)
            if video.undecodable:
                warnings.warn(f"{name}: {video.undecodable} frames could not be decoded", RuntimeWarning, stacklevel=2)
            if video.damage:
                warnings.warn(video.damage, RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<sparkpilot.FrameReader of {len(self._videos)} videos, {self.width}x{self.height}>"
