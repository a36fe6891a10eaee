// FFmpeg's functions and helpers shared by the files of this folder. Included only by them.
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

// FFmpeg's libraries bring in about a hundred others, which took two thirds of the program's start. They are loaded
// when the first video or JPEG is; until then the program starts without them.
// clang-format off
#define SPARKPILOT_AVFORMAT_FUNCTIONS(X) \
  X(av_find_best_stream) X(av_read_frame) X(av_write_frame) X(av_write_trailer) X(avformat_alloc_context) \
  X(avformat_alloc_output_context2) X(avformat_close_input) X(avformat_find_stream_info) \
  X(avformat_free_context) X(avformat_new_stream) X(avformat_open_input) X(avformat_write_header) \
  X(avio_alloc_context) X(avio_context_free) X(avio_flush)
#define SPARKPILOT_AVCODEC_FUNCTIONS(X) \
  X(av_packet_alloc) X(av_packet_clone) X(av_packet_free) X(av_packet_rescale_ts) X(av_packet_unref) \
  X(avcodec_alloc_context3) X(avcodec_default_get_buffer2) X(avcodec_descriptor_get_by_name) \
  X(avcodec_find_decoder) X(avcodec_find_encoder) X(avcodec_find_encoder_by_name) X(avcodec_free_context) \
  X(avcodec_open2) X(avcodec_parameters_from_context) X(avcodec_parameters_to_context) X(avcodec_receive_frame) \
  X(avcodec_receive_packet) X(avcodec_send_frame) X(avcodec_send_packet)
#define SPARKPILOT_AVUTIL_FUNCTIONS(X) \
  X(av_dict_free) X(av_dict_set) X(av_frame_alloc) X(av_frame_free) X(av_frame_get_buffer) \
  X(av_frame_make_writable) X(av_freep) X(av_log_set_callback) X(av_malloc) X(av_opt_set) X(av_strerror)
// clang-format on

struct Ffmpeg {
#define SPARKPILOT_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  SPARKPILOT_AVFORMAT_FUNCTIONS(SPARKPILOT_MEMBER)
  SPARKPILOT_AVCODEC_FUNCTIONS(SPARKPILOT_MEMBER)
  SPARKPILOT_AVUTIL_FUNCTIONS(SPARKPILOT_MEMBER)
#undef SPARKPILOT_MEMBER
};

// File names for dlopen().
struct FfmpegLibraries {
  std::string format, codec, util;
};
// The libraries of the major versions whose headers were compiled: their structures have that layout.
FfmpegLibraries ffmpeg_libraries();
// Error: a library cannot be loaded or lacks a function, named.
Ffmpeg load_ffmpeg(const FfmpegLibraries& libraries);
// Loaded by the first call, from any thread; silent (VideoReader::damage() reports what matters). Error: as
// load_ffmpeg().
const Ffmpeg& ffmpeg();

struct FfmpegDelete {
  void operator()(AVCodecContext* context) const { ffmpeg().avcodec_free_context(&context); }
  void operator()(AVFrame* frame) const { ffmpeg().av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { ffmpeg().av_packet_free(&packet); }
};
using CodecContext = std::unique_ptr<AVCodecContext, FfmpegDelete>;
using Frame = std::unique_ptr<AVFrame, FfmpegDelete>;
using Packet = std::unique_ptr<AVPacket, FfmpegDelete>;

inline std::string ffmpeg_error(int code) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  ffmpeg().av_strerror(code, text.data(), text.size());
  return text.data();
}

// An AVIOContext with sparkpilot's callbacks; FFmpeg may replace the buffer, so it is freed through the context.
struct IoDelete {
  void operator()(AVIOContext* io) const {
    ffmpeg().av_freep(&io->buffer);
    ffmpeg().avio_context_free(&io);
  }
};
using IoContext = std::unique_ptr<AVIOContext, IoDelete>;

}  // namespace sparkpilot::drive
