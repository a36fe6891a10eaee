// Times the preparation of model frames on every instruction set of this machine; with --dump, writes what it computed.
//
//   frame_bench [--picture I420.npy] [--warp 3x3.npy] [--runs N] [--dump DIR]
//
// Without a picture: noise of 1928 x 1208 pixels, and a tici's road camera, slightly rotated. One core; targets and
// samplings in turns. `warm` prepares one picture again and again, `fresh` takes sixteen in turns, as from a decoder;
// both print the minimum and the median of N runs in ms.
#include <fmt/format.h>
#include <hwy/highway.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/statistics.h"
#include "route/contract/frame.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace {

struct Options {
  std::string picture, warp, dump;
  int runs = 50;
};

YuvImage noise(int width, int height, uint64_t seed) {
  YuvImage out(width, height);
  Random random(seed);
  for (uint8_t& byte : out.bytes()) byte = static_cast<uint8_t>(random.bits());
  return out;
}

YuvImage read_picture(const std::string& path) {
  const Tensor t = load_npy(path);
  if (t.dtype() != DType::u8 || t.shape().rank() != 2 || t.shape()[0] % 3 != 0)
    fail("{} holds {} {}, expected u8 [height * 3 / 2, width]", path, name(t.dtype()), t.shape().str());
  YuvImage out(static_cast<int>(t.shape()[1]), static_cast<int>(t.shape()[0] * 2 / 3));
  const auto bytes = t.data<uint8_t>();
  out.bytes().assign(bytes.begin(), bytes.end());
  return out;
}

Matrix3 read_warp(const std::string& path) {
  const Tensor t = load_npy(path);
  if (t.dtype() != DType::f64 || t.elements() != 9)
    fail("{} holds {} {}, expected f64 [3,3]", path, name(t.dtype()), t.shape().str());
  Matrix3 out;
  std::copy_n(t.data<double>().begin(), 9, out.begin());
  return out;
}

struct Way {
  std::string target;
  int64_t bit;  // Highway's target bit; 0: the reference
  Sampling sampling;
  bool driver;
  std::vector<double> warm = {}, fresh = {};
};

void prepare(const Way& way, const YuvView& picture, const Matrix3& warp, std::span<uint8_t> out) {
  if (way.driver) {
    const auto run = way.bit == 0 ? prepare_driver_frame_reference : prepare_driver_frame;
    run(picture, dm_warp_matrix(Camera{picture.width, picture.height, picture.width * 567.0 / 1928}.intrinsics()),
        way.sampling, kDriverBorder, out);
  } else {
    (way.bit == 0 ? prepare_frame_reference : prepare_frame)(picture, warp, way.sampling, out);
  }
}

std::vector<Way> all_ways() {
  std::vector<Way> out;
  for (const bool driver : {false, true}) {
    for (const Sampling sampling : {Sampling::bilinear, Sampling::nearest}) {
      for (int bit = 0; bit < 63; ++bit) {
        const int64_t target = int64_t{1} << bit;
        if (hwy::SupportedTargets() & target & HWY_TARGETS)
          out.push_back({hwy::TargetName(target), target, sampling, driver});
      }
      out.push_back({"reference", 0, sampling, driver});
    }
  }
  return out;
}

void measure(const YuvImage& first, const Matrix3& warp, int runs) {
  std::vector<YuvImage> pictures{first};
  while (pictures.size() < 16) pictures.push_back(noise(first.width(), first.height(), pictures.size()));
  std::vector<uint8_t> out(kDriverFrameBytes);
  std::vector<Way> ways = all_ways();
  size_t next = 0;
  for (int run = 0; run < runs; ++run) {
    for (Way& way : ways) {
      if (way.bit != 0) hwy::GetChosenTarget().Update(way.bit);
      const std::span<uint8_t> to(out.data(), static_cast<size_t>(way.driver ? kDriverFrameBytes : kFrameBytes));
      const auto timed = [&](const YuvImage& picture) {
        const int64_t begin = now_ns();
        prepare(way, picture.view(), warp, to);
        return static_cast<double>(now_ns() - begin) * 1e-6;
      };
      way.fresh.push_back(timed(pictures[next++ % 16]));
      timed(pictures[0]);
      way.warm.push_back(timed(pictures[0]));
    }
  }
  fmt::print("{} x {}, {} runs; ms: least, median\n", first.width(), first.height(), runs);
  for (const Way& way : ways) {
    const Statistics warm = summarize(way.warm), fresh = summarize(way.fresh);
    fmt::print("{:8} {:8} {:10} warm {:.3f} {:.3f}  fresh {:.3f} {:.3f}\n", way.driver ? "driver" : "driving",
               way.sampling == Sampling::bilinear ? "bilinear" : "nearest", way.target, warm.min, warm.p50, fresh.min,
               fresh.p50);
  }
}

void dump(const std::filesystem::path& folder, const YuvImage& picture, const Matrix3& warp) {
  std::filesystem::create_directories(folder);
  for (const Sampling sampling : {Sampling::bilinear, Sampling::nearest}) {
    Tensor out(DType::u8, {kFrameChannels, kFrameHeight, kFrameWidth});
    prepare_frame(picture.view(), warp, sampling, out.data<uint8_t>());
    save_npy(folder / (sampling == Sampling::bilinear ? "bilinear.npy" : "nearest.npy"), out.view());
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Times the preparation of model frames.");
  app.add_option("--picture", options.picture, "u8 .npy [height * 3 / 2, width]: Y, U, V");
  app.add_option("--warp", options.warp, "f64 .npy [3, 3]: from model pixels to the picture's");
  app.add_option("--runs", options.runs, "0: no timing")->check(CLI::Range(0, 1000000));
  app.add_option("--dump", options.dump, "writes DIR/bilinear.npy and DIR/nearest.npy");
  CLI11_PARSE(app, argc, argv);
  const YuvImage picture = options.picture.empty() ? noise(1928, 1208, 0) : read_picture(options.picture);
  const Matrix3 warp = options.warp.empty()
                           ? warp_matrix({0.01, -0.02, 0.03}, Camera{1928, 1208, 2648}.intrinsics(), false)
                           : read_warp(options.warp);
  if (!options.dump.empty()) dump(options.dump, picture, warp);
  if (options.runs > 0) measure(picture, warp, options.runs);
  return 0;
}

}  // namespace
}  // namespace sparkpilot::drive

int main(int argc, char** argv) {
  try {
    return sparkpilot::drive::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "frame_bench: {}\n", error.what());
    return 2;
  }
}
