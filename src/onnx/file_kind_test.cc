// Files that are not models, and their names in error messages.
#include "onnx/file_kind.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/test_assets.h"
#include "base/test_files.h"
#include "onnx/test_models.h"

namespace sparkpilot {
namespace {

using std::string_literals::operator""s;
using std::string_view_literals::operator""sv;

std::string zip(const std::string& member) {
  return "PK\3\4"s + std::string(22, '\0') + static_cast<char>(member.size()) + "\0\0\0"s + member + "contents";
}

std::string packets(size_t size, size_t first) {
  std::string bytes(size * 6, '\x11');
  for (size_t at = first; at < bytes.size(); at += size) bytes[at] = 'G';
  return bytes;
}

std::string with_json(size_t length_bytes) {
  const std::string json = R"({"__metadata__":{}})";
  std::string out(length_bytes, '\0');
  out[0] = static_cast<char>(json.size());
  return out + json + std::string(64, '\0');
}

struct Case {
  std::string bytes, kind;
};

const Case kCases[] = {
    {"", "an empty file"},
    {packets(188, 0), "an MPEG transport stream (video)"},
    {packets(192, 4), "an MPEG transport stream (video)"},
    {"\0\0\0\1\x40\1\x0c\1\xff\xff"s, "an HEVC stream (video)"},
    {"\0\0\1\x46\1\x50"s, "an HEVC stream (video)"},
    {"\0\0\0\1\x67\x64\0\x28"s, "an H.264 stream (video)"},
    {"\0\0\0\x20"
     "ftypisom\0\0\2\0"s,
     "an MP4 or QuickTime file (video)"},
    {"\x1a\x45\xdf\xa3\xa3\x42"s, "a Matroska or WebM file (video)"},
    {"\x80\4\x95\x10\0\0\0\0\0\0\0}\x94."s, "a Python pickle"},
    {"\x80\2}q\0."s, "a Python pickle"},
    {"\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M"s, "a PyTorch checkpoint (a Python pickle)"},
    {zip("archive/data.pkl"), "a PyTorch checkpoint (a zip archive)"},
    {zip("img.npy"), "a NumPy .npz archive"},
    {zip("readme.txt"), "a zip archive"},
    {"PK\3\4"s, "a zip archive"},
    {"\x1f\x8b\x08\0\0\0"s, "a gzip file (unpack it first)"},
    {"\x28\xb5\x2f\xfd\x04"s, "a zstd file (unpack it first)"},
    {"BZh91AY&SY"s, "a bzip2 file (unpack it first)"},
    {"\x1c\0\0\0TFL3"s, "a TensorFlow Lite model"},
    {"ftrt\0\0\0\0\xe8\0"s, "a TensorRT engine"},
    {with_json(8), "a safetensors file"},
    {with_json(4), "a thneed model or a TensorRT engine with a header of JSON"},
    {"GGUF\3\0\0\0"s, "a GGUF model"},
    {"\x93NUMPY\1\0v\0"s, "a NumPy array"},
    {std::string(257, 'a') + "ustar\0"s, "a tar archive"},
    {"\x7f"
     "ELF\2\1\1\0"s,
     "an ELF program or library"},
    {"\xef\xbb\xbf <!DOCTYPE HTML>\n<html>"s, "an HTML page (the download failed?)"},
    {"<?xml version=\"1.0\"?>\n<net name=\"m\">"s, "an XML file"},
    {"{\"layers\": 3}\n"s, "a JSON file"},
    {"weights go here\n"s, "a text file"},
    {std::string(4096, '\0'), "zeros, at least at the beginning"},
    {"\x9c\x01\xfe\x02\x77"s, ""},
};

TEST(FileKind, IsToldByTheFirstBytes) {
  for (const Case& c : kCases) EXPECT_EQ(file_kind(c.bytes), c.kind) << c.bytes.substr(0, 16);
}

// The importer names the kind of file; the error for other files stays unchanged.
TEST(FileKind, IsWhatTheImporterCallsIt) {
  for (const Case& c : kCases) {
    try {
      import_bytes(c.bytes);
      ADD_FAILURE() << c.kind << " was read";
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::user) << said;
      if (c.bytes.empty()) EXPECT_EQ(said, "test.onnx: the file is empty");
      else if (!c.kind.empty()) EXPECT_EQ(said, "test.onnx: is " + c.kind + ", not an ONNX model");
      else EXPECT_TRUE(said.starts_with("test.onnx: ")) << said;
    }
  }
}

TEST(FileKind, AnyBytesCutAnywhereHaveAtMostAName) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    const Case& c = kCases[static_cast<size_t>(random.integer(0, std::ssize(kCases) - 1))];
    std::string bytes = c.bytes.substr(0, static_cast<size_t>(random.integer(0, std::ssize(c.bytes))));
    if (!bytes.empty())
      bytes[static_cast<size_t>(random.integer(0, std::ssize(bytes) - 1))] ^= static_cast<char>(random.bits());
    EXPECT_LT(file_kind(bytes).size(), 80u);
  }
}

// Files found next to a model: the route's video, and openpilot's metadata.
TEST(FileKind, OfRealFiles) {
  const std::filesystem::path assets = assets_folder();
  const std::pair<const char*, const char*> files[] = {
      {"route_demo/qcamera.ts", "is an MPEG transport stream (video), not an ONNX model"},
      {"route_demo/qlog.bz2", "is a bzip2 file (unpack it first), not an ONNX model"},
      {"openpilot_metadata/driving_policy_metadata_2025-08-19.pkl", "is a Python pickle, not an ONNX model"}};
  int found = 0;
  for (const auto& [name, words] : files) {
    if (!std::filesystem::exists(assets / name)) continue;
    ++found;
    try {
      load_onnx(assets / name);
      ADD_FAILURE() << name << " was read";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).ends_with(words)) << error.what();
    }
  }
  if (found == 0) GTEST_SKIP() << assets << " is absent";
}

}  // namespace
}  // namespace sparkpilot
