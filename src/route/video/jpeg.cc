#include "route/video/jpeg.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "route/video/ffmpeg.h"

namespace sparkpilot::drive {
namespace {

void check(int code, const char* what) {
  if (code < 0) fail("JPEG: {} ({})", what, ffmpeg_error(code));
}

void copy_plane(AVFrame& frame, int plane, const uint8_t* from, int stride, int width, int height) {
  for (int row = 0; row < height; ++row) {
    std::memcpy(frame.data[plane] + static_cast<ptrdiff_t>(row) * frame.linesize[plane],
                from + static_cast<ptrdiff_t>(row) * stride, static_cast<size_t>(width));
  }
}

Frame frame_of(const YuvView& picture, int quality) {
  Frame frame(ffmpeg().av_frame_alloc());
  if (!frame) fail("JPEG: out of memory");
  frame->format = AV_PIX_FMT_YUVJ420P;
  frame->width = picture.width;
  frame->height = picture.height;
  frame->color_range = AVCOL_RANGE_JPEG;
  frame->quality = quality * FF_QP2LAMBDA;
  check(ffmpeg().av_frame_get_buffer(frame.get(), 0), "no memory for a frame");
  copy_plane(*frame, 0, picture.y, picture.y_stride, picture.width, picture.height);
  copy_plane(*frame, 1, picture.u, picture.uv_stride, picture.width / 2, picture.height / 2);
  copy_plane(*frame, 2, picture.v, picture.uv_stride, picture.width / 2, picture.height / 2);
  return frame;
}

}  // namespace

std::vector<uint8_t> encode_jpeg(const YuvView& picture, int quality) {
  if (picture.width < 2 || picture.height < 2 || picture.width % 2 || picture.height % 2) {
    fail("JPEG: a picture of {}x{}, expected even sizes", picture.width, picture.height);
  }
  quality = std::clamp(quality, 2, 31);
  const AVCodec* codec = ffmpeg().avcodec_find_encoder(AV_CODEC_ID_MJPEG);
  if (codec == nullptr) fail("FFmpeg's libraries here have no encoder for JPEG");
  const CodecContext encoder(ffmpeg().avcodec_alloc_context3(codec));
  if (!encoder) fail("JPEG: out of memory");
  encoder->width = picture.width;
  encoder->height = picture.height;
  encoder->pix_fmt = AV_PIX_FMT_YUVJ420P;
  encoder->color_range = AVCOL_RANGE_JPEG;
  encoder->time_base = {1, 1};
  encoder->thread_count = 1;
  encoder->flags |= AV_CODEC_FLAG_QSCALE | AV_CODEC_FLAG_BITEXACT;
  encoder->global_quality = quality * FF_QP2LAMBDA;
  check(ffmpeg().avcodec_open2(encoder.get(), codec, nullptr), "the encoder cannot be opened");
  const Frame frame = frame_of(picture, quality);
  const Packet packet(ffmpeg().av_packet_alloc());
  check(ffmpeg().avcodec_send_frame(encoder.get(), frame.get()), "cannot be encoded");
  check(ffmpeg().avcodec_receive_packet(encoder.get(), packet.get()), "cannot be encoded");
  return {packet->data, packet->data + packet->size};
}

}  // namespace sparkpilot::drive
