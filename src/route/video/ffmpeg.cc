#include "route/video/ffmpeg.h"

#include <dlfcn.h>

#include "base/error.h"

namespace sparkpilot::drive {
namespace {

// Kept whole in the program, where scripts/package.sh and make_wheel.py look for them.
[[gnu::used]] constexpr char kFormat[] = "libavformat.so." AV_STRINGIFY(LIBAVFORMAT_VERSION_MAJOR);
[[gnu::used]] constexpr char kCodec[] = "libavcodec.so." AV_STRINGIFY(LIBAVCODEC_VERSION_MAJOR);
[[gnu::used]] constexpr char kUtil[] = "libavutil.so." AV_STRINGIFY(LIBAVUTIL_VERSION_MAJOR);

void* open_library(const std::string& name) {
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: FFmpeg keeps state of the process
  if (library == nullptr) fail("videos and JPEGs need FFmpeg's libraries, which cannot be loaded: {}", ::dlerror());
  return library;
}

template <typename Function>
void find(Function& function, void* library, const std::string& file, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) fail("{} has no {}: it is not the FFmpeg that sparkpilot was built with", file, name);
}

}  // namespace

FfmpegLibraries ffmpeg_libraries() { return {kFormat, kCodec, kUtil}; }

Ffmpeg load_ffmpeg(const FfmpegLibraries& libraries) {
  Ffmpeg out;
  void* library = nullptr;
#define SPARKPILOT_FIND_FORMAT(name) find(out.name, library, libraries.format, #name);
#define SPARKPILOT_FIND_CODEC(name) find(out.name, library, libraries.codec, #name);
#define SPARKPILOT_FIND_UTIL(name) find(out.name, library, libraries.util, #name);
  library = open_library(libraries.util);
  SPARKPILOT_AVUTIL_FUNCTIONS(SPARKPILOT_FIND_UTIL)
  library = open_library(libraries.codec);
  SPARKPILOT_AVCODEC_FUNCTIONS(SPARKPILOT_FIND_CODEC)
  library = open_library(libraries.format);
  SPARKPILOT_AVFORMAT_FUNCTIONS(SPARKPILOT_FIND_FORMAT)
#undef SPARKPILOT_FIND_FORMAT
#undef SPARKPILOT_FIND_CODEC
#undef SPARKPILOT_FIND_UTIL
  out.av_log_set_level(AV_LOG_QUIET);
  return out;
}

const Ffmpeg& ffmpeg() {
  static const Ffmpeg loaded = load_ffmpeg(ffmpeg_libraries());
  return loaded;
}

}  // namespace sparkpilot::drive
