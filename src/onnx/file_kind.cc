#include "onnx/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

namespace sparkpilot {
namespace {

using std::string_view_literals::operator""sv;

struct Mark {
  size_t at;
  std::string_view bytes, kind;
};

// The first match counts.
constexpr Mark kMarks[] = {
    {0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv, "a PyTorch checkpoint (a Python pickle)"},
    {0, "\x80\x02"sv, "a Python pickle"},
    {0, "\x80\x03"sv, "a Python pickle"},
    {0, "\x80\x04"sv, "a Python pickle"},
    {0, "\x80\x05"sv, "a Python pickle"},
    {4, "TFL3"sv, "a TensorFlow Lite model"},
    {4, "ET12"sv, "an ExecuTorch program"},
    {0, "ftrt"sv, "a TensorRT engine"},
    {0, "GGUF"sv, "a GGUF model"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {0, "\x93NUMPY"sv, "a NumPy array"},
    {0, "\x1f\x8b"sv, "a gzip file (unpack it first)"},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd file (unpack it first)"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "an xz file (unpack it first)"},
    {0, "BZh"sv, "a bzip2 file (unpack it first)"},
    {0, "\x04\x22\x4d\x18"sv, "an lz4 file (unpack it first)"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive"},
    {257, "ustar"sv, "a tar archive"},
    {4, "ftyp"sv, "an MP4 or QuickTime file (video)"},
    {0, "\x1a\x45\xdf\xa3"sv, "a Matroska or WebM file (video)"},
    {0, "\0\0\x01\xba"sv, "an MPEG program stream (video)"},
    {0, "RIFF"sv, "a RIFF file (AVI, WAV or WebP)"},
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG image"},
    {0, "\xff\xd8\xff"sv, "a JPEG image"},
    {0, "%PDF-"sv, "a PDF document"},
    {0,
     "\x7f"
     "ELF"sv,
     "an ELF program or library"},
};

bool is_at(std::string_view head, size_t at, std::string_view bytes) {
  return head.size() >= at + bytes.size() && head.substr(at, bytes.size()) == bytes;
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Packets of 188 bytes that begin with 0x47, or of 192 bytes with it after a time stamp.
bool is_transport_stream(std::string_view head) {
  const auto synced = [&](size_t first, size_t packet) {
    return is_at(head, first, "G") && is_at(head, first + packet, "G") && is_at(head, first + 2 * packet, "G");
  };
  return synced(0, 188) || synced(4, 192);
}

// A start code and the header of the unit after it: either codec's streams begin with parameter sets or a delimiter.
std::string_view raw_video(std::string_view head) {
  const size_t code = head.substr(0, 4) == "\0\0\0\1"sv ? 4 : head.substr(0, 3) == "\0\0\1"sv ? 3 : 0;
  if (code == 0 || head.size() < code + 2) return {};
  const auto first = static_cast<unsigned char>(head[code]), second = static_cast<unsigned char>(head[code + 1]);
  const int hevc = first >> 1 & 0x3f, h264 = first & 0x1f;
  if ((hevc == 32 || hevc == 33 || hevc == 35) && first < 128 && second == 1) return "an HEVC stream (video)";
  return h264 == 7 || h264 == 9 ? "an H.264 stream (video)" : std::string_view();
}

// The name of the first member shows which program wrote the archive.
std::string_view zip_kind(std::string_view head) {
  constexpr size_t kLength = 26, kName = 30;
  if (is_at(head, 0, "PK\5\6")) return "an empty zip archive";
  if (!is_at(head, 0, "PK\3\4")) return {};
  if (head.size() < kName) return "a zip archive";
  const std::string_view name = head.substr(kName, little_endian(head.substr(kLength, 2)));
  if (name.ends_with("data.pkl") || name.ends_with(".format_version")) return "a PyTorch checkpoint (a zip archive)";
  return name.ends_with(".npy") ? "a NumPy .npz archive" : "a zip archive";
}

// Formats that begin with the length of the JSON that follows.
std::string_view json_header(std::string_view head) {
  constexpr uint64_t kLongest = 100'000'000;
  const auto holds = [&](size_t length) {
    const uint64_t json = little_endian(head.substr(0, length));
    return head.size() > length && head[length] == '{' && json >= 2 && json <= kLongest;
  };
  if (holds(8)) return "a safetensors file";
  return holds(4) ? "a thneed model or a TensorRT engine with a header of JSON" : std::string_view();
}

std::string_view text_kind(std::string_view head) {
  const bool text = std::none_of(head.begin(), head.end(), [](const char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 127 || (byte < 32 && c != '\n' && c != '\r' && c != '\t');
  });
  if (!text) return {};
  constexpr std::string_view kMarkOfUtf8 = "\xef\xbb\xbf";
  if (head.starts_with(kMarkOfUtf8)) head.remove_prefix(kMarkOfUtf8.size());
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  std::string start(head.substr(0, 16));
  std::transform(start.begin(), start.end(), start.begin(), [](unsigned char c) { return std::tolower(c); });
  if (start.starts_with("<!doctype html") || start.starts_with("<html")) return "an HTML page (the download failed?)";
  if (start.starts_with("<?xml")) return "an XML file";
  return start.starts_with("{") ? "a JSON file" : "a text file";
}

}  // namespace

std::string file_kind(std::string_view head) {
  head = head.substr(0, kKindHead);
  if (head.empty()) return "an empty file";
  for (const Mark& mark : kMarks) {
    if (is_at(head, mark.at, mark.bytes)) return std::string(mark.kind);
  }
  if (is_transport_stream(head)) return "an MPEG transport stream (video)";
  for (const std::string_view kind : {raw_video(head), zip_kind(head), json_header(head), text_kind(head)}) {
    if (!kind.empty()) return std::string(kind);
  }
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; }))
    return "zeros, at least at the beginning";
  return {};
}

}  // namespace sparkpilot
