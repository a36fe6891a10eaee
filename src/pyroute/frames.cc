// Frames of recorded video as NumPy arrays.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pyroute/module.h"
#include "route/log/route.h"
#include "route/video/reader.h"

namespace sparkpilot::pyroute {
namespace {

using drive::YuvView;

enum class Pixels { nv12, yuv420p, rgb24 };

Pixels pixels_named(const std::string& name) {
  if (name == "nv12") return Pixels::nv12;
  if (name == "yuv420p") return Pixels::yuv420p;
  if (name == "rgb24") return Pixels::rgb24;
  fail("pix_fmt: expected nv12, yuv420p or rgb24, got {}", name);
}

void copy_plane(const uint8_t* from, int stride, int width, int height, uint8_t* to) {
  for (int row = 0; row < height; ++row, from += stride, to += width) std::copy_n(from, width, to);
}

void write_nv12(const YuvView& p, uint8_t* to) {
  copy_plane(p.y, p.y_stride, p.width, p.height, to);
  to += p.width * p.height;
  for (int row = 0; row < p.height / 2; ++row) {
    const uint8_t *u = p.u + row * p.uv_stride, *v = p.v + row * p.uv_stride;
    for (int x = 0; x < p.width / 2; ++x) {
      *to++ = u[x];
      *to++ = v[x];
    }
  }
}

void write_yuv420p(const YuvView& p, uint8_t* to) {
  copy_plane(p.y, p.y_stride, p.width, p.height, to);
  to += p.width * p.height;
  copy_plane(p.u, p.uv_stride, p.width / 2, p.height / 2, to);
  copy_plane(p.v, p.uv_stride, p.width / 2, p.height / 2, to + p.width * p.height / 4);
}

// Full-range BT.601, as openpilot's screen and JPEG interpret the device's pictures; each chroma sample is that of its
// four pixels. Factors are times 2^16.
void write_rgb24(const YuvView& p, uint8_t* to) {
  const auto byte = [](int scaled) { return static_cast<uint8_t>(std::clamp((scaled + (1 << 15)) >> 16, 0, 255)); };
  for (int row = 0; row < p.height; ++row) {
    const uint8_t *y = p.y + row * p.y_stride, *u = p.u + row / 2 * p.uv_stride, *v = p.v + row / 2 * p.uv_stride;
    for (int x = 0; x < p.width; ++x, to += 3) {
      const int luma = y[x] << 16, cb = u[x / 2] - 128, cr = v[x / 2] - 128;
      to[0] = byte(luma + 91881 * cr);               // 1.402
      to[1] = byte(luma - 22554 * cb - 46802 * cr);  // 0.344136, 0.714136
      to[2] = byte(luma + 116130 * cb);              // 1.772
    }
  }
}

class Video {
 public:
  Video(const std::filesystem::path& path, const std::string& pixels, int64_t start, int threads)
      : pixels_(pixels_named(pixels)), reader_(path, threads) {
    if (start > 0) reader_.start_at(start);
  }

  // The next frame's index and picture, in separate memory.
  std::pair<int64_t, py::array> next() {
    const Use use(used_);
    std::vector<py::ssize_t> shape{reader_.height(), reader_.width(), 3};
    if (pixels_ != Pixels::rgb24) shape = {reader_.height() * 3 / 2, reader_.width()};
    py::array_t<uint8_t> out(shape);
    uint8_t* const to = out.mutable_data();
    bool there = false;
    {
      const python::WithoutLock without_lock;
      there = reader_.next();
      if (there) write(reader_.picture(), to);
    }
    if (!there) throw py::stop_iteration();
    return {reader_.index(), std::move(out)};
  }

  int width() const { return reader_.width(); }
  int height() const { return reader_.height(); }
  const std::string& damage() const { return reader_.damage(); }
  int64_t undecodable() const { return reader_.undecodable(); }

 private:
  void write(const YuvView& picture, uint8_t* to) const {
    switch (pixels_) {
      case Pixels::nv12: return write_nv12(picture, to);
      case Pixels::yuv420p: return write_yuv420p(picture, to);
      case Pixels::rgb24: return write_rgb24(picture, to);
    }
  }

  Pixels pixels_;
  drive::VideoReader reader_;
  std::atomic<bool> used_ = false;
};

struct Camera {
  const char* name;
  std::filesystem::path drive::Segment::*file;
};
constexpr std::array kCameras = {
    Camera{"road", &drive::Segment::road_video}, Camera{"wide", &drive::Segment::wide_video},
    Camera{"driver", &drive::Segment::driver_video}, Camera{"qcamera", &drive::Segment::qcamera}};

// Numbers of a route's segments and the camera's files in them.
std::vector<std::pair<int, std::filesystem::path>> find_videos(const std::filesystem::path& name,
                                                               const std::string& camera,
                                                               const std::filesystem::path& data) {
  const auto* const found =
      std::find_if(kCameras.begin(), kCameras.end(), [&](const Camera& c) { return c.name == camera; });
  if (found == kCameras.end()) fail("camera: expected road, wide, driver or qcamera, got {}", camera);
  std::vector<std::pair<int, std::filesystem::path>> videos;
  for (const drive::Segment& segment : drive::find_route(name.string(), {data}).segments) {
    const auto& file = segment.*found->file;
    if (!file.empty()) videos.emplace_back(segment.number, file);
  }
  if (videos.empty()) fail("{}: there is no video of the camera \"{}\"", name.string(), camera);
  return videos;
}

}  // namespace

void bind_frames(py::module_& module) {
  using Held = std::shared_ptr<Video>;  // which fails for an object that was not made
  py::class_<Video, std::shared_ptr<Video>>(module, "Video")
      .def(py::init([](const std::filesystem::path& path, const std::string& pixels, int64_t start, int threads) {
             const python::WithoutLock without_lock;
             return std::make_shared<Video>(path, pixels, start, threads);
           }),
           py::arg("path"), py::arg("pixels"), py::arg("start"), py::arg("threads"))
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", [](const Held& video) { return video->next(); })
      .def_property_readonly("width", [](const Held& video) { return video->width(); })
      .def_property_readonly("height", [](const Held& video) { return video->height(); })
      .def_property_readonly("damage", [](const Held& video) { return video->damage(); })
      .def_property_readonly("undecodable", [](const Held& video) { return video->undecodable(); });
  module.def("find_videos", &find_videos, py::arg("name"), py::arg("camera"), py::arg("data"),
             py::call_guard<python::WithoutLock>());
}

}  // namespace sparkpilot::pyroute
