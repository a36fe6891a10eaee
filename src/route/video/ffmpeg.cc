#include "route/video/ffmpeg.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace sparkpilot::drive {
namespace {

// Kept whole in the program, where scripts/package.sh and make_wheel.py look for them.
[[gnu::used]] constexpr char kFormat[] = "libavformat.so." AV_STRINGIFY(LIBAVFORMAT_VERSION_MAJOR);
[[gnu::used]] constexpr char kCodec[] = "libavcodec.so." AV_STRINGIFY(LIBAVCODEC_VERSION_MAJOR);
[[gnu::used]] constexpr char kUtil[] = "libavutil.so." AV_STRINGIFY(LIBAVUTIL_VERSION_MAJOR);

// A library that functions are looked up in.
class Library {
 public:
  explicit Library(const std::string& name) : name_(name), handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) fail("videos and JPEGs need FFmpeg's libraries, which cannot be loaded: {}", ::dlerror());
  }

  template <typename Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr) fail("{} has no {}: it is not the FFmpeg that sparkpilot was built with", name_, name);
  }

 private:
  std::string name_;
  void* handle_;  // never closed: FFmpeg keeps state of the process
};

// Nothing is printed. A decoder's `opaque` counts what is wrong with its data: it marks few of the pictures that are
// damaged. With several threads FFmpeg copies the context.
void count_error(void* from, int level, const char*, va_list) {
  if (from == nullptr || level > AV_LOG_ERROR) return;
  const AVClass* const kind = *static_cast<AVClass**>(from);
  if (kind == nullptr || std::string_view(kind->class_name) != "AVCodecContext") return;
  void* const errors = static_cast<AVCodecContext*>(from)->opaque;
  if (errors != nullptr) ++*static_cast<std::atomic<int64_t>*>(errors);
}

}  // namespace

FfmpegLibraries ffmpeg_libraries() { return {kFormat, kCodec, kUtil}; }

Ffmpeg load_ffmpeg(const FfmpegLibraries& libraries) {
  Ffmpeg out;
  const Library util(libraries.util), codec(libraries.codec), format(libraries.format);
#define SPARKPILOT_FIND_UTIL(name) util.find(out.name, #name);
#define SPARKPILOT_FIND_CODEC(name) codec.find(out.name, #name);
#define SPARKPILOT_FIND_FORMAT(name) format.find(out.name, #name);
  SPARKPILOT_AVUTIL_FUNCTIONS(SPARKPILOT_FIND_UTIL)
  SPARKPILOT_AVCODEC_FUNCTIONS(SPARKPILOT_FIND_CODEC)
  SPARKPILOT_AVFORMAT_FUNCTIONS(SPARKPILOT_FIND_FORMAT)
#undef SPARKPILOT_FIND_UTIL
#undef SPARKPILOT_FIND_CODEC
#undef SPARKPILOT_FIND_FORMAT
  out.av_log_set_callback(count_error);
  return out;
}

const Ffmpeg& ffmpeg() {
  static const Ffmpeg loaded = load_ffmpeg(ffmpeg_libraries());
  return loaded;
}

}  // namespace sparkpilot::drive
