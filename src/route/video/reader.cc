#include "route/video/reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "route/video/ffmpeg.h"

namespace sparkpilot::drive {
namespace {

constexpr int kIoBytes = 1 << 16;
constexpr int64_t kMaxPixels = int64_t{8192} * 8192;
// The formats that cameras and screen recorders write; those that name other files (playlists, concatenations) are left
// out.
constexpr const char* kFormats = "hevc,h264,mpegts,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm";

bool is_yuv420(int pixels) { return pixels == AV_PIX_FMT_YUV420P || pixels == AV_PIX_FMT_YUVJ420P; }

// FFmpeg's default, except that rows never begin a power of two apart: pixels below one another would share a few sets
// of the first-level cache, and much of decoding works down columns (1928 columns: 2176 bytes instead of 2048 save 6
// %).
int get_buffer(AVCodecContext* context, AVFrame* frame, int flags) {
  constexpr int kUnit = 128, kBad = 1024;
  const int width = frame->width, row = (width + kUnit - 1) / kUnit * kUnit;
  if (row % kBad == 0) frame->width += kUnit;
  const int code = ffmpeg().avcodec_default_get_buffer2(context, frame, flags);
  frame->width = width;
  return code;
}

struct FormatDelete {
  void operator()(AVFormatContext* format) const { ffmpeg().avformat_close_input(&format); }
};

// The file as FFmpeg reads it: always through our own descriptor, so that a path is never taken for a URL.
struct Source {
  explicit Source(std::filesystem::path path) : file(std::move(path)) {}

  static int read(void* opaque, uint8_t* out, int bytes) {
    auto& self = *static_cast<Source*>(opaque);
    const int64_t count = std::min<int64_t>(bytes, self.file.size() - self.at);
    if (count <= 0) return AVERROR_EOF;
    try {
      self.file.read_at(self.at, {reinterpret_cast<std::byte*>(out), static_cast<size_t>(count)});
    } catch (const Error& error) {
      self.error = error.what();
      return AVERROR(EIO);
    }
    self.at += count;
    return static_cast<int>(count);
  }

  static int64_t seek(void* opaque, int64_t offset, int whence) {
    auto& self = *static_cast<Source*>(opaque);
    if (whence & AVSEEK_SIZE) return self.file.size();
    const int64_t base = whence == SEEK_CUR ? self.at : whence == SEEK_END ? self.file.size() : 0;
    if (base + offset < 0) return AVERROR(EINVAL);
    return self.at = base + offset;
  }

  InputFile file;
  int64_t at = 0;
  std::string error;
};

}  // namespace

struct VideoReader::Impl {
  Impl(const std::filesystem::path& path, int threads) : source(path), name(path.string()) {
    open_container();
    open_decoder(threads);
  }

  void open_container() {
    auto* buffer = static_cast<uint8_t*>(ffmpeg().av_malloc(kIoBytes));
    io.reset(ffmpeg().avio_alloc_context(buffer, kIoBytes, 0, &source, Source::read, nullptr, Source::seek));
    AVFormatContext* opened = ffmpeg().avformat_alloc_context();
    opened->pb = io.get();
    opened->flags |= AVFMT_FLAG_CUSTOM_IO;
    AVDictionary* options = nullptr;
    ffmpeg().av_dict_set(&options, "format_whitelist", kFormats, 0);
    const int code = ffmpeg().avformat_open_input(&opened, nullptr, nullptr, &options);  // frees `opened` if it fails
    ffmpeg().av_dict_free(&options);
    if (code < 0) fail("{}: not a video that can be read ({})", name, ffmpeg_error(code));
    format.reset(opened);
    if (ffmpeg().avformat_find_stream_info(format.get(), nullptr) < 0) fail("{}: no video stream could be read", name);
  }

  void open_decoder(int threads) {
    const AVCodec* codec = nullptr;
    stream = ffmpeg().av_find_best_stream(format.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (stream < 0 || codec == nullptr) fail("{}: holds no video stream that can be decoded", name);
    const AVCodecParameters* parameters = format->streams[stream]->codecpar;
    decoder.reset(ffmpeg().avcodec_alloc_context3(codec));
    ffmpeg().avcodec_parameters_to_context(decoder.get(), parameters);
    decoder->thread_count = std::max(1, threads);
    if (threads <= 1) decoder->get_buffer2 = get_buffer;  // with more, FFmpeg 5 takes only its own
    decoder->max_pixels = kMaxPixels;
    decoder->opaque = &errors;  // see ffmpeg.cc
    if (const int code = ffmpeg().avcodec_open2(decoder.get(), codec, nullptr); code < 0) {
      fail("{}: {} cannot be decoded ({})", name, codec->name, ffmpeg_error(code));
    }
    width = parameters->width;
    height = parameters->height;
    reordered = parameters->video_delay > 0;
    if (!is_yuv420(parameters->format)) fail("{}: the pictures are not 8-bit YUV 4:2:0", name);
    if (width < 2 || height < 2 || width % 2 || height % 2) {
      fail("{}: pictures of {}x{}, expected even sizes", name, width, height);
    }
    packet.reset(ffmpeg().av_packet_alloc());
    frame.reset(ffmpeg().av_frame_alloc());
  }

  // Reads the stream's next packet into `packet`; false at the end of the file.
  bool read_packet() {
    while (true) {
      const int code = ffmpeg().av_read_frame(format.get(), packet.get());
      if (code < 0) {
        if (code != AVERROR_EOF) stopped(fmt::format("cannot be read on ({})", ffmpeg_error(code)));
        return false;
      }
      if (packet->stream_index == stream) break;
      ffmpeg().av_packet_unref(packet.get());
    }
    // Each packet is one picture, and recorders write them in display order: the packet's number is the frame's index,
    // even after a lost one.
    times.push_back(packet->pts);
    packet->pts = packet->dts = packets++;
    return true;
  }

  // Sends the next packet to the decoder; false at the end of the file.
  bool feed() {
    if (!group.empty()) {
      send(group.front().get());
      group.pop_front();
      return true;
    }
    if (!read_packet()) {
      ffmpeg().avcodec_send_packet(decoder.get(), nullptr);
      return false;
    }
    send(packet.get());
    ffmpeg().av_packet_unref(packet.get());
    return true;
  }

  void send(const AVPacket* one) {
    if (ffmpeg().avcodec_send_packet(decoder.get(), one) < 0) ++undecodable;
  }

  // Keeps the packets from the last key frame up to `wanted` onwards.
  void start_at(int64_t wanted) {
    if (reordered) wanted = 0;  // packets are not in display order: decode everything
    first = wanted;
    while (packets <= wanted && read_packet()) {
      if (packet->flags & AV_PKT_FLAG_KEY) group.clear();
      group.emplace_back(ffmpeg().av_packet_clone(packet.get()));
      ffmpeg().av_packet_unref(packet.get());
    }
  }

  bool next() {
    if (!damage.empty()) return false;
    while (true) {
      const int code = ffmpeg().avcodec_receive_frame(decoder.get(), frame.get());
      if (code == AVERROR(EAGAIN)) {
        if (drained) return false;
        drained = !feed();
        continue;
      }
      if (code == AVERROR_EOF) return false;
      if (code < 0) {
        ++undecodable;
        continue;
      }
      const int64_t shown = reordered || frame->pts == AV_NOPTS_VALUE ? index + 1 : frame->pts;
      if (frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT) || shown <= index) {
        ++undecodable;
        if (reordered) ++index;
        continue;
      }
      // A later header may say otherwise than the first, and pictures of grey alone have no planes of chroma.
      if (!is_yuv420(frame->format)) {
        stopped("pictures are no longer 8-bit YUV 4:2:0");
        return false;
      }
      if (frame->width != width || frame->height != height || frame->linesize[0] < width) {
        stopped(fmt::format("pictures change from {}x{} to {}x{}", width, height, frame->width, frame->height));
        return false;
      }
      index = shown;
      if (index >= first) return true;
    }
  }

  std::optional<int64_t> time() const {
    if (reordered || index < 0 || times[static_cast<size_t>(index)] == AV_NOPTS_VALUE) return {};
    const AVRational unit = format->streams[stream]->time_base;
    return std::llround(static_cast<double>(times[static_cast<size_t>(index)]) * 1e9 * unit.num / unit.den);
  }

  void stopped(const std::string& why) {
    damage = fmt::format("{}: {} at frame {}", name, source.error.empty() ? why : source.error, index + 1);
  }

  Source source;
  std::string name;
  std::atomic<int64_t> errors = 0;  // outlives the decoder
  IoContext io;
  std::unique_ptr<AVFormatContext, FormatDelete> format;  // has to be closed before `io`
  CodecContext decoder;
  Packet packet;
  Frame frame;
  int stream = -1, width = 0, height = 0;
  bool reordered = false, drained = false;
  std::deque<Packet> group;    // packets that start_at() read ahead
  std::vector<int64_t> times;  // of all packets so far, in the stream's unit
  int64_t packets = 0, first = 0, index = -1, undecodable = 0;
  std::string damage;
};

bool can_decode(const std::string& codec) {
  const AVCodecDescriptor* description = ffmpeg().avcodec_descriptor_get_by_name(codec.c_str());
  return description && ffmpeg().avcodec_find_decoder(description->id);
}

VideoReader::VideoReader(const std::filesystem::path& path, int threads) : impl_(new Impl(path, threads)) {}
VideoReader::~VideoReader() = default;
int VideoReader::width() const { return impl_->width; }
int VideoReader::height() const { return impl_->height; }
bool VideoReader::next() { return impl_->next(); }
void VideoReader::start_at(int64_t index) { impl_->start_at(index); }
int64_t VideoReader::index() const { return impl_->index; }
std::optional<int64_t> VideoReader::time() const { return impl_->time(); }
const std::string& VideoReader::damage() const { return impl_->damage; }
int64_t VideoReader::undecodable() const { return impl_->undecodable; }
int64_t VideoReader::errors() const { return impl_->errors; }

YuvView VideoReader::picture() const {
  const AVFrame& f = *impl_->frame;
  return {f.width, f.height, f.data[0], f.data[1], f.data[2], f.linesize[0], f.linesize[1]};
}

}  // namespace sparkpilot::drive
