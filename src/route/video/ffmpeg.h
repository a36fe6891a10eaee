// FFmpeg helpers shared by the files of this folder. Included only by them.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
}

#include <array>
#include <memory>
#include <string>

namespace sparkpilot::drive {

struct FfmpegDelete {
  void operator()(AVCodecContext* context) const { avcodec_free_context(&context); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};
using CodecContext = std::unique_ptr<AVCodecContext, FfmpegDelete>;
using Frame = std::unique_ptr<AVFrame, FfmpegDelete>;
using Packet = std::unique_ptr<AVPacket, FfmpegDelete>;

inline std::string ffmpeg_error(int code) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  return text.data();
}

// An AVIOContext with sparkpilot's callbacks; FFmpeg may replace the buffer, so it is freed through the context.
struct IoDelete {
  void operator()(AVIOContext* io) const {
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
};
using IoContext = std::unique_ptr<AVIOContext, IoDelete>;

}  // namespace sparkpilot::drive
