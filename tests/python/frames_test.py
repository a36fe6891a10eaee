#!/usr/bin/env python3
"""Frames of recorded video from Python: shapes, colours, places in the video, and what is refused."""
import gc
import pathlib
import tempfile
import threading
import unittest
import warnings

from package import need_route

need_route()

import numpy as np
from sparkpilot import FrameReader, InputError, LogReader, _route, run


class Frames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        run("route synth", out=cls.folder / "small", seconds=2, device="mici", qcamera_only=True, quiet=True)
        run("route synth", out=cls.folder / "full", seconds=0.15, device="mici", no_wide=True, quiet=True)
        cls.small, = (cls.folder / "small").iterdir()
        cls.full, = (cls.folder / "full").iterdir()
        cls.planes = list(FrameReader(cls.small, camera="qcamera", pix_fmt="yuv420p"))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_the_videos_own_bytes(self):
        reader = FrameReader(self.small, camera="qcamera", pix_fmt="nv12")
        height, width = reader.height, reader.width
        self.assertEqual((width, height, reader.files), (526, 330, [str(self.small / "qcamera.ts")]))
        frames = list(reader)
        self.assertEqual([frame.index for frame in frames], list(range(40)))
        self.assertEqual({frame.segment for frame in frames}, {0})
        for nv12, planes in zip(frames[::13], self.planes[::13]):
            self.assertEqual((nv12.image.shape, nv12.image.dtype), ((height * 3 // 2, width), np.uint8))
            np.testing.assert_array_equal(nv12.image[:height], planes.image[:height])
            u, v = planes.image[height:].reshape(2, -1)
            np.testing.assert_array_equal(nv12.image[height:].reshape(-1, 2), np.stack([u, v], -1))
        self.assertGreater(self.planes[0].image[:height].std(), 10)  # a road, not one colour
        self.assertFalse(np.array_equal(self.planes[0].image, self.planes[20].image))

    def test_colours(self):
        reader = FrameReader(self.small, camera="qcamera")
        for rgb, planes in zip(reader, self.planes[:3]):
            height, width = reader.height, reader.width
            self.assertEqual((rgb.image.shape, rgb.image.dtype), ((height, width, 3), np.uint8))
            u, v = (np.kron(plane.reshape(height // 2, width // 2) - 128.0, np.ones((2, 2)))
                    for plane in planes.image[height:].reshape(2, -1))
            y = planes.image[:height]
            exact = np.stack([y + 1.402 * v, y - 0.344136 * u - 0.714136 * v, y + 1.772 * u], -1)
            self.assertLess(np.abs(np.clip(exact, 0, 255) - rgb.image).max(), 0.51)

    def test_start(self):
        started = list(FrameReader(self.small / "qcamera.ts", pix_fmt="yuv420p", start=33, threads=2))
        self.assertEqual([frame.index for frame in started], list(range(33, 40)))
        for frame in started:
            np.testing.assert_array_equal(frame.image, self.planes[frame.index].image)
        self.assertEqual(list(FrameReader(self.small, camera="qcamera", start=40)), [])

    def test_the_road_camera_and_its_log(self):
        frames = list(FrameReader(self.full, pix_fmt="nv12"))
        self.assertEqual([frame.image.shape for frame in frames], [(760 * 3 // 2, 1344)] * 3)
        indices = [index.segmentId for index in LogReader(self.full).filter("roadEncodeIdx")]
        self.assertEqual([frame.index for frame in frames], indices)

    def test_a_route_of_two_segments(self):
        route = self.folder / "route"
        for number in (3, 5):
            (route / str(number)).mkdir(parents=True)
            (route / str(number) / "qcamera.ts").write_bytes((self.small / "qcamera.ts").read_bytes())
        frames = [(frame.segment, frame.index) for frame in FrameReader(route, camera="qcamera", start=38)]
        self.assertEqual(frames, [(3, 38), (3, 39), *((5, i) for i in range(40))])

    def test_arrays_own_their_memory(self):
        frames = FrameReader(self.small, camera="qcamera")
        images = [frame.image for frame, _ in zip(frames, range(3))]
        before = [image.copy() for image in images]
        self.assertTrue(all(image.flags.owndata and image.flags.writeable for image in images))
        list(frames)
        del frames
        gc.collect()
        for image, kept in zip(images, before):
            np.testing.assert_array_equal(image, kept)

    def test_what_is_refused(self):
        text = self.folder / "text.hevc"
        text.write_text("no video " * 100)
        empty = self.folder / "empty.mp4"
        empty.write_bytes(b"")
        for make, why in ((lambda: FrameReader(text), "text.hevc: "), (lambda: FrameReader(empty), "empty.mp4: not a video"),
                          (lambda: FrameReader(self.small / "rlog.zst"), "rlog.zst: not a video"),
                          (lambda: FrameReader(self.folder / "none"), "none: there is no such file or folder"),
                          (lambda: FrameReader(self.small), "no video of the camera \"road\""),
                          (lambda: FrameReader(self.small, camera="back"), "camera: expected road, wide, driver or qcamera, got back"),
                          (lambda: FrameReader(self.small, camera="qcamera", start=-1), "start: expected at least 0, got -1"),
                          (lambda: FrameReader(self.small, camera="qcamera", pix_fmt="gray"), "pix_fmt: expected nv12")):
            with self.assertRaisesRegex(InputError, why):
                make()

    def test_a_video_with_holes(self):
        """What is left of it keeps its pictures' shape, and a warning says that frames are lost."""
        whole = (self.small / "qcamera.ts").read_bytes()
        cut = self.folder / "cut.ts"
        cut.write_bytes(whole[:len(whole) * 2 // 3])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self.assertLess(len(list(FrameReader(cut))), 40)
        holes = bytearray(whole)
        for place in range(len(whole) // 2, len(whole) - 3000, 5000):
            holes[place:place + 400] = bytes(400)
        cut.write_bytes(holes)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            frames = list(FrameReader(cut, pix_fmt="yuv420p"))
        self.assertLess(len(frames), 40)
        self.assertRegex(str(said[0].message), "cut.ts: [0-9]+ frames could not be decoded")
        for frame in frames[:10]:
            np.testing.assert_array_equal(frame.image, self.planes[frame.index].image)

    def test_other_threads_go_on(self):
        video = _route.Video(str(self.small / "qcamera.ts"), "rgb24", 0, 1)
        refused = []

        def decode():
            try:
                for _ in video:
                    pass
            except InputError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=decode) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIn("the reader is in use by another call", refused[0])


if __name__ == "__main__":
    unittest.main()
