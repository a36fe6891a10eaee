#include "route/video/writer.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "route/video/ffmpeg.h"

namespace sparkpilot::drive {
namespace {

constexpr int kIoBytes = 1 << 16;

struct FormatDelete {
  void operator()(AVFormatContext* format) const { ffmpeg().avformat_free_context(format); }
};

const AVCodec* find_encoder(Codec codec) {
  const std::array<const char*, 3> names = codec == Codec::h264 ? std::array{"libx264", "h264_nvenc", "libopenh264"}
                                                                : std::array{"libx265", "hevc_nvenc", "libkvazaar"};
  for (const char* name : names) {
    if (const AVCodec* found = ffmpeg().avcodec_find_encoder_by_name(name)) return found;
  }
  fail("FFmpeg's libraries here have no encoder for {}", codec == Codec::h264 ? "H.264" : "HEVC");
}

const char* muxer_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".mp4") return "mp4";
  if (extension == ".ts") return "mpegts";
  if (extension == ".hevc") return "hevc";
  fail("{}: a video's name ends in .mp4, .ts or .hevc", path.string());
}

}  // namespace

struct VideoWriter::Impl {
  Impl(std::filesystem::path path, const VideoOptions& o) : options(o), name(path.string()), file(path) {
    if (o.width < 2 || o.height < 2 || o.width % 2 || o.height % 2) {
      fail("{}: a video of {}x{}, expected even sizes", name, o.width, o.height);
    }
    open_container(muxer_of(path));
    open_encoder();
    const int code = ffmpeg().avformat_write_header(format.get(), nullptr);
    check(code, "cannot be begun");
    packet.reset(ffmpeg().av_packet_alloc());
    make_frame();
  }

  void open_container(const char* muxer) {
    AVFormatContext* made = nullptr;
    check(ffmpeg().avformat_alloc_output_context2(&made, nullptr, muxer, nullptr), "no such container");
    format.reset(made);
    auto* buffer = static_cast<uint8_t*>(ffmpeg().av_malloc(kIoBytes));
    io.reset(ffmpeg().avio_alloc_context(buffer, kIoBytes, 1, this, nullptr, write_bytes, seek));
    if (::lseek(file.fd(), 0, SEEK_CUR) < 0) io->seekable = 0;
    format->pb = io.get();
    format->flags |= AVFMT_FLAG_CUSTOM_IO | AVFMT_FLAG_BITEXACT;
  }

  void open_encoder() {
    const AVCodec* codec = find_encoder(options.codec);
    encoder.reset(ffmpeg().avcodec_alloc_context3(codec));
    encoder->width = options.width;
    encoder->height = options.height;
    encoder->pix_fmt = AV_PIX_FMT_YUV420P;
    encoder->time_base = {1, options.frames_per_second};
    encoder->framerate = {options.frames_per_second, 1};
    encoder->gop_size = options.group;
    // Full range, as in devices' videos and JPEG; if unset, players assume limited range.
    encoder->color_range = AVCOL_RANGE_JPEG;
    encoder->colorspace = AVCOL_SPC_SMPTE170M;
    encoder->color_primaries = AVCOL_PRI_BT709;
    encoder->color_trc = AVCOL_TRC_IEC61966_2_1;
    encoder->max_b_frames = 0;  // as devices record: packets in display order
    encoder->thread_count = options.threads;
    if (format->oformat->flags & AVFMT_GLOBALHEADER) encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    encoder->flags |= AV_CODEC_FLAG_BITEXACT;
    ffmpeg().av_opt_set(encoder->priv_data, "preset", options.fast ? "ultrafast" : "medium", 0);
    ffmpeg().av_opt_set(encoder->priv_data, options.constant_quantizer ? "qp" : "crf",
                        std::to_string(options.quality).c_str(), 0);
    if (options.codec == Codec::hevc) {
      const std::string x265 = fmt::format("log-level=none:info=0:pools={}:frame-threads=1:bframes=0", options.threads);
      ffmpeg().av_opt_set(encoder->priv_data, "x265-params", x265.c_str(), 0);
    }
    check(ffmpeg().avcodec_open2(encoder.get(), codec, nullptr), "the encoder cannot be opened");
    stream = ffmpeg().avformat_new_stream(format.get(), nullptr);
    if (stream == nullptr) fail("{}: out of memory", name);
    stream->time_base = encoder->time_base;
    stream->avg_frame_rate = encoder->framerate;
    check(ffmpeg().avcodec_parameters_from_context(stream->codecpar, encoder.get()), "the encoder cannot be used");
  }

  void make_frame() {
    frame.reset(ffmpeg().av_frame_alloc());
    frame->format = encoder->pix_fmt;
    frame->width = options.width;
    frame->height = options.height;
    check(ffmpeg().av_frame_get_buffer(frame.get(), 0), "no memory for a frame");
  }

  void write(const YuvView& picture) {
    if (picture.width != options.width || picture.height != options.height) {
      fail("{}: a picture of {}x{}, expected {}x{}", name, picture.width, picture.height, options.width,
           options.height);
    }
    check(ffmpeg().av_frame_make_writable(frame.get()), "no memory for a frame");
    copy_plane(0, picture.y, picture.y_stride, picture.width, picture.height);
    copy_plane(1, picture.u, picture.uv_stride, picture.width / 2, picture.height / 2);
    copy_plane(2, picture.v, picture.uv_stride, picture.width / 2, picture.height / 2);
    frame->pts = options.first + frames++;
    encode(frame.get());
  }

  void copy_plane(int plane, const uint8_t* from, int stride, int width, int height) {
    for (int row = 0; row < height; ++row) {
      std::memcpy(frame->data[plane] + static_cast<ptrdiff_t>(row) * frame->linesize[plane],
                  from + static_cast<ptrdiff_t>(row) * stride, static_cast<size_t>(width));
    }
  }

  void encode(const AVFrame* picture) {
    check(ffmpeg().avcodec_send_frame(encoder.get(), picture), "cannot be encoded");
    while (true) {
      const int code = ffmpeg().avcodec_receive_packet(encoder.get(), packet.get());
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
      check(code, "cannot be encoded");
      packet->duration = 1;
      ffmpeg().av_packet_rescale_ts(packet.get(), encoder->time_base, stream->time_base);
      packet->stream_index = stream->index;
      check(ffmpeg().av_write_frame(format.get(), packet.get()), "cannot be written");
      ffmpeg().av_packet_unref(packet.get());
      check(io->error, "cannot be written");
    }
  }

  void commit() {
    encode(nullptr);
    check(ffmpeg().av_write_trailer(format.get()), "cannot be written");
    ffmpeg().avio_flush(io.get());
    check(io->error, "cannot be written");
    file.commit();
  }

  void check(int code, const char* what) const {
    if (system_error != 0) fail("{}: {}", name, std::strerror(system_error));
    if (code < 0) fail("{}: {} ({})", name, what, ffmpeg_error(code));
  }

  static int write_all(Impl& self, const uint8_t* data, int bytes) {
    for (int done = 0; done < bytes;) {
      const ssize_t count = ::write(self.file.fd(), data + done, static_cast<size_t>(bytes - done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        self.system_error = errno;
        return AVERROR(errno);
      }
      done += static_cast<int>(count);
    }
    return bytes;
  }
#if LIBAVFORMAT_VERSION_MAJOR >= 61
  static int write_bytes(void* opaque, const uint8_t* data, int bytes) {
    return write_all(*static_cast<Impl*>(opaque), data, bytes);
  }
#else
  static int write_bytes(void* opaque, uint8_t* data, int bytes) {
    return write_all(*static_cast<Impl*>(opaque), data, bytes);
  }
#endif
  static int64_t seek(void* opaque, int64_t offset, int whence) {
    const int fd = static_cast<Impl*>(opaque)->file.fd();
    if (whence & AVSEEK_SIZE) {
      const off_t at = ::lseek(fd, 0, SEEK_CUR), end = ::lseek(fd, 0, SEEK_END);
      ::lseek(fd, at, SEEK_SET);
      return end;
    }
    const off_t at = ::lseek(fd, offset, whence);
    return at < 0 ? AVERROR(errno) : at;
  }

  VideoOptions options;
  std::string name;
  AtomicFile file;
  IoContext io;
  std::unique_ptr<AVFormatContext, FormatDelete> format;
  CodecContext encoder;
  Frame frame;
  Packet packet;
  AVStream* stream = nullptr;
  int64_t frames = 0;
  int system_error = 0;
};

VideoWriter::VideoWriter(std::filesystem::path path, const VideoOptions& options)
    : impl_(new Impl(std::move(path), options)) {}
VideoWriter::~VideoWriter() = default;
void VideoWriter::write(const YuvView& picture) { impl_->write(picture); }
int64_t VideoWriter::frames() const { return impl_->frames; }
void VideoWriter::commit() { impl_->commit(); }

}  // namespace sparkpilot::drive
