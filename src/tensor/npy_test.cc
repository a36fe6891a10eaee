#include "tensor/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace sparkpilot {
namespace {

// A file as NumPy writes it, assembled by hand.
std::string npy(const std::string& dict, const std::string& data, char version = 1) {
  std::string out = std::string("\x93NUMPY") + version + '\0';
  out += {static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  if (version > 1) out += std::string(2, '\0');
  return out + dict + data;
}

Tensor parse(const std::string& bytes) { return parse_npy(std::as_bytes(std::span(bytes)), "array.npy"); }

std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "accepted";
}

const std::string kPlain = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n";

TEST(Npy, ReadsWhatNumpyWrites) {
  const Tensor t = parse(npy(kPlain, "abcdef"));
  EXPECT_EQ(t.dtype(), DType::u8);
  EXPECT_EQ(t.shape(), (Shape{2, 3}));
  EXPECT_EQ(t.data<uint8_t>()[5], 'f');
  EXPECT_EQ(parse(npy(kPlain, "abcdef", 2)).data<uint8_t>()[0], 'a');
  EXPECT_EQ(parse(npy("{'shape': (), 'descr': '<i2', 'fortran_order': False}", std::string("\x05\x00", 2))).to_scalar(),
            5);
  EXPECT_EQ(parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "")).elements(), 0);
}

TEST(Npy, ReadsOtherOrders) {
  const Tensor swapped =
      parse(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", std::string("\1\2\0\7", 4)));
  EXPECT_EQ(swapped.data<int16_t>()[0], 258);
  EXPECT_EQ(swapped.data<int16_t>()[1], 7);
  // [[a, b, c], [d, e, f]] in Fortran order is stored as a d b e c f.
  const Tensor t = parse(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "adbecf"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(t.raw()), 6), "abcdef");
  const Tensor flags =
      parse(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", std::string("\0\x09", 2)));
  EXPECT_EQ(static_cast<const uint8_t*>(flags.raw())[1], 1);
}

TEST(Npy, RefusesWhatIsBroken) {
  EXPECT_EQ(refusal(""), "array.npy: it is too short for a .npy file: 0 bytes");
  EXPECT_EQ(refusal("PK\3\4 not an array"), "array.npy: it is no .npy file");
  EXPECT_NE(refusal(npy(kPlain, "abcde")).find("needs 6 bytes of data, the file has 5"), std::string::npos);
  EXPECT_NE(refusal(npy(kPlain, "abcdefg")).find("the file has 7"), std::string::npos);
  EXPECT_NE(refusal(npy(kPlain, "", 9)).find("version 9"), std::string::npos);
  EXPECT_NE(refusal(npy(kPlain, "abcdef").substr(0, 30)).find("cut off"), std::string::npos);
  const auto dict = [](const std::string& text) { return refusal(npy(text, "")); };
  EXPECT_NE(dict("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}").find("'|O' is not supported"),
            std::string::npos);
  EXPECT_NE(dict("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}").find("records"),
            std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4', 'fortran_order': 7, 'shape': (1,)}").find("fortran_order"), std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}").find("number"), std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}").find("array.npy"),
            std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}").find("digits"),
            std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}").find("dimensions"),
            std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4', 'shape': (1,)}").find("lacks"), std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4', 'descr': '<f4'}").find("unexpected key"), std::string::npos);
  EXPECT_NE(dict("{'descr': '<f4").find("without end"), std::string::npos);
  EXPECT_NE(dict("{'descr': '', 'fortran_order': False, 'shape': ()}").find("not supported"), std::string::npos);
}

TEST(Npy, RoundTripsThroughAFile) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("sparkpilot_npy_{}.npy", getpid());
  const Tensor written = Tensor::of<float>(Shape{2, 1, 2}, {1, -2.5, 3, 4});
  save_npy(path, written.view());
  const Tensor read = load_npy(path);
  EXPECT_EQ(read.shape(), written.shape());
  EXPECT_EQ(std::memcmp(read.raw(), written.raw(), 16), 0);
  EXPECT_EQ(read_file(path).find('\n') % 64, 63u);  // the data is aligned, as NumPy aligns it

  Tensor bf16(DType::bf16, Shape{1});
  store_element(DType::bf16, bf16.raw(), 0, 1.5);
  save_npy(path, bf16.view());
  EXPECT_EQ(load_npy(path).data<float>()[0], 1.5f);
  std::filesystem::remove(path);
  EXPECT_THROW(load_npy(path), Error);
}

TEST(Npy, HeaderIsNumpys) {
  const std::string header = npy_header(DType::f32, Shape{3});
  EXPECT_EQ(header.size() % 64, 0u);
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_EQ(header.substr(10, dict.size()), dict);
  EXPECT_NE(npy_header(DType::u8, Shape{}).find("'shape': ()"), std::string::npos);
  EXPECT_NE(npy_header(DType::u8, Shape{4, 5}).find("'shape': (4, 5)"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot
