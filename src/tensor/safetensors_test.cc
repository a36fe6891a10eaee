#include "tensor/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/test_files.h"

namespace sparkpilot {
namespace safetensors_test {

std::string file_of(const std::string& header, const std::string& data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + data;
}

std::string refusal(const std::string& bytes) {
  const TempFolder folder;
  const auto path = folder / "x.safetensors";
  write_text(path, bytes);
  try {
    load_safetensors(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    const std::string text = error.what();
    EXPECT_EQ(text.find(path.string() + ": "), 0u) << text;
    return text.substr(path.string().size() + 2);
  }
  return "accepted";
}

std::string refused_header(const std::string& header, const std::string& data = "abcd") {
  return refusal(file_of(header, data));
}

template <typename T>
std::vector<T> values(const Tensor& tensor) {
  const auto data = tensor.data<T>();
  return {data.begin(), data.end()};
}

const std::filesystem::path kGolden =
    std::filesystem::path(SPARKPILOT_SOURCE_DIR) / "tests/reference/safetensors/golden.safetensors";

// Hugging Face's safetensors 0.8.0 wrote it (bench/peers/check_safetensors.py --golden).
TEST(Safetensors, ReadsWhatThePackageWrites) {
  const SafetensorsFile file = load_safetensors(kGolden);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "p\"t"}}));
  std::map<std::string, Tensor> tensors(file.tensors.begin(), file.tensors.end());
  ASSERT_EQ(tensors.size(), 14u);
  EXPECT_EQ(file.tensors.front().first, "u64.weight");
  const std::pair<const char*, DType> types[] = {
      {"f64", DType::f64},      {"i64", DType::i64}, {"u64", DType::u64},   {"f32", DType::f32}, {"i32", DType::i32},
      {"u32", DType::u32},      {"f16", DType::f16}, {"bf16", DType::bf16}, {"i16", DType::i16}, {"u16", DType::u16},
      {"bool", DType::boolean}, {"i8", DType::i8},   {"u8", DType::u8}};
  const Shape shapes[] = {Shape{}, Shape{3}, Shape{2, 2}, Shape{1, 3, 1}};
  int64_t i = 0;
  for (const auto& [name, dtype] : types) {
    const Tensor& tensor = tensors.at(std::string(name) + ".weight");
    EXPECT_EQ(tensor.dtype(), dtype) << name;
    EXPECT_EQ(tensor.shape(), shapes[i % 4]) << name;
    for (int64_t k = 0; k < tensor.bytes(); ++k)
      EXPECT_EQ(static_cast<const uint8_t*>(tensor.raw())[k], (7 * k + i) % (dtype == DType::boolean ? 2 : 120));
    ++i;
  }
  EXPECT_EQ(tensors.at("nothing").shape(), (Shape{0, 5}));
}

TEST(Safetensors, WritesTheSameBytesAsThePackage) {
  const TempFolder folder;
  save_safetensors(folder / "x", load_safetensors(kGolden));
  EXPECT_EQ(read_text(folder / "x"), read_text(kGolden));
}

TEST(Safetensors, AlignsWhateverTheOrder) {
  const TempFolder folder;
  const std::string name = "\"\\/\n\x01 \xc3\xa4";
  save_safetensors(folder / "x", {{{"bytes", Tensor::of<uint8_t>(Shape{3}, {1, 2, 3})},
                                   {name, Tensor::scalar(2.5)},
                                   {"b", Tensor::of<float>(Shape{1}, {7})},
                                   {"a", Tensor::of<float>(Shape{1}, {8})}},
                                  {{"k", "v"}, {"", ""}}});
  const SafetensorsReader reader(folder / "x");
  std::vector<std::string> names;
  for (const auto& entry : reader.entries()) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.offset % (bits(entry.dtype) / 8), 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{name, "b", "a", "bytes"}));
  EXPECT_EQ(reader.read(name).to_scalar(), 2.5);
  EXPECT_EQ(reader.metadata().at(""), "");
  EXPECT_EQ(load_safetensors(folder / "x").tensors[2].second.to_scalar(), 8);
}

TEST(Safetensors, AnEmptyFileOfTensorsIsOne) {
  const TempFolder folder;
  save_safetensors(folder / "x", {});
  EXPECT_EQ(read_text(folder / "x"), file_of("{}      ", ""));
  EXPECT_TRUE(load_safetensors(folder / "x").tensors.empty());
}

TEST(Safetensors, ABooleanIsZeroOrOne) {
  const TempFolder folder;
  write_text(folder / "x", file_of(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", {"\0\x05\x01", 3}));
  const Tensor tensor = load_safetensors(folder / "x").tensors[0].second;
  EXPECT_EQ(std::memcmp(tensor.raw(), "\0\1\1", 3), 0);
}

TEST(Safetensors, RefusesWhatIsBroken) {
  EXPECT_EQ(refusal("abc"), "it is too short for a safetensors file: 3 bytes");
  EXPECT_EQ(refusal(file_of("{}", "").substr(0, 9)), "its header of 2 bytes is cut off: the file has 9");
  EXPECT_NE(refusal(std::string("\1\xe1\xf5\5\0\0\0\0{}", 10)).find("has 100000001 bytes"), std::string::npos);
  EXPECT_NE(refusal(std::string("\2\0\0\0\0\0\0\x80{}", 10)).find("no safetensors file?"), std::string::npos);
  EXPECT_EQ(refused_header(""), "its header does not begin with '{'");
  EXPECT_EQ(refused_header("[]"), "its header does not begin with '{'");
  EXPECT_NE(refused_header("{\"a\":").find("no JSON"), std::string::npos);
  EXPECT_NE(refused_header("{} x").find("no JSON"), std::string::npos);
  EXPECT_NE(refused_header("{\"a\xff\":{}}").find("no JSON"), std::string::npos);
  EXPECT_EQ(refused_header(R"({"a":5})"), "\"a\" is a number in its header, expected an object");
  EXPECT_EQ(refused_header(R"({"a":null})"), "\"a\" is null in its header, expected an object");
  EXPECT_EQ(refused_header(R"({"__metadata__":{"a":5}})"), "tensor \"__metadata__\": a is a number");
  EXPECT_EQ(refused_header(R"({"__metadata__":{"a":"b","a":"c"}})"), "its metadata has \"a\" twice");
  EXPECT_NE(refused_header(R"({"__metadata__":{"a":{"b":"c"}}})").find("an object"), std::string::npos);
  EXPECT_EQ(refused_header("{}"), "its tensors have 0 bytes, the file has 4 after the header");
}

TEST(Safetensors, RefusesTensorsThatDoNotFit) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return refused_header(R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
                          "}}");
  };
  EXPECT_EQ(one("U8", "[4]", "[0,4]"), "accepted");
  EXPECT_EQ(one("C64", "[4]", "[0,4]"), "tensor \"a\": its type \"C64\" is not supported");
  EXPECT_EQ(one("U16", "[4]", "[0,4]"), "tensor \"a\": shape [4] of u16 needs 8 bytes, its data_offsets are 0 and 4");
  EXPECT_NE(one("U8", "[4]", "[4,0]").find("data_offsets are 4 and 0"), std::string::npos);
  EXPECT_NE(one("U8", "[4]", "[18446744073709551615,3]").find("above 2^63"), std::string::npos);
  EXPECT_NE(one("U8", "[4]", "[-4,0]").find("negative"), std::string::npos);
  EXPECT_NE(one("U8", "[4]", "[0,4.0]").find("fraction"), std::string::npos);
  EXPECT_NE(one("U8", "[4]", "[0]").find("1 data_offsets"), std::string::npos);
  EXPECT_NE(one("U8", "[4]", "[0,4,4]").find("3 data_offsets"), std::string::npos);
  EXPECT_NE(one("U8", "[[4]]", "[0,4]").find("a list"), std::string::npos);
  EXPECT_NE(one("U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]").find("rank 9"), std::string::npos);
  EXPECT_NE(one("U8", "[1,1,1,1,1,1,1,1,1,4]", "[0,4]").find("too many numbers"), std::string::npos);
  EXPECT_NE(one("U8", "[4611686018427387904,4]", "[0,0]").find("elements"), std::string::npos);
  EXPECT_NE(one("U8", "4", "[0,4]").find("shape is a number"), std::string::npos);
  EXPECT_EQ(one("U8", "[3]", "[0,3]"), "its tensors have 3 bytes, the file has 4 after the header");
  EXPECT_EQ(one("U8", "[5]", "[0,5]"), "tensor \"a\" ends at byte 5 of the data, the file has 4");
  EXPECT_NE(one("U8", "[3]", "[1,4]").find("begins at byte 1 of the data, expected 0"), std::string::npos);
  EXPECT_NE(refused_header(R"({"a":{"dtype":"U8","shape":[4]}})").find("lacks"), std::string::npos);
  EXPECT_NE(refused_header(R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})").find("twice"),
            std::string::npos);
  EXPECT_NE(refused_header(R"({"a":{"kind":"U8"}})").find("not expected"), std::string::npos);
}

TEST(Safetensors, RefusesOverlapsGapsAndTwins) {
  const std::string first = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)";
  const auto and_then = [&](const std::string& name, const std::string& offsets, int size) {
    return refused_header(first + "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(size) +
                          R"(],"data_offsets":)" + offsets + "}}");
  };
  EXPECT_EQ(and_then("b", "[2,4]", 2), "accepted");
  EXPECT_EQ(and_then("a", "[2,4]", 2), "its header has \"a\" twice");
  EXPECT_NE(and_then("b", "[1,4]", 3).find("a gap or an overlap"), std::string::npos);
  EXPECT_NE(and_then("b", "[3,4]", 1).find("a gap or an overlap"), std::string::npos);
  EXPECT_NE(and_then("b", "[0,4]", 4).find("a gap or an overlap"), std::string::npos);
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const TempFolder folder;
  const auto refuse = [&](const SafetensorsFile& file) {
    try {
      save_safetensors(folder / "x", file);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      EXPECT_FALSE(std::filesystem::exists(folder / "x"));
      return std::string(error.what());
    }
    return std::string("written");
  };
  const Tensor one = Tensor::scalar(1.0F);
  EXPECT_NE(refuse({{{"a", one}, {"a", one}}, {}}).find("its name is taken"), std::string::npos);
  EXPECT_NE(refuse({{{"__metadata__", one}}, {}}).find("its name is taken"), std::string::npos);
  EXPECT_NE(refuse({{{"a\xff", one}}, {}}).find("UTF-8"), std::string::npos);
  EXPECT_NE(refuse({{{"a", Tensor(DType::u4, Shape{2})}}, {}}).find("no type for u4"), std::string::npos);
}

TEST(SafetensorsReader, ReadsRowsFromSeveralThreads) {
  const TempFolder folder;
  std::vector<int32_t> numbers(60);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i);
  save_safetensors(folder / "x",
                   {{{"a", Tensor::of<int32_t>(Shape{20, 3}, numbers)}, {"s", Tensor::scalar(4.0F)}}, {}});
  const SafetensorsReader reader(folder / "x");
  std::vector<int32_t> got(60);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] { reader.read("a", 5 * t, 5, reinterpret_cast<std::byte*>(got.data() + 15 * t)); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(got, numbers);
  float scalar = 0;
  reader.read("s", 0, 1, reinterpret_cast<std::byte*>(&scalar));
  EXPECT_EQ(scalar, 4);
  EXPECT_THROW(reader.read("a", 19, 2, nullptr), Error);
  EXPECT_THROW(reader.read("a", -1, 1, nullptr), Error);
  EXPECT_THROW(reader.read("a", 21, 0, nullptr), Error);
  EXPECT_THROW(reader.read("b"), Error);
  EXPECT_EQ(reader.find("b"), nullptr);
}

// Every number of rows up to the reserved one: a full file is not moved, a part of one is.
TEST(SafetensorsWriter, ClosesWhatWasReserved) {
  const TempFolder folder;
  for (const int64_t rows : {0, 1, 3, 7}) {
    {
      SafetensorsWriter writer(
          folder / "x", {{"u8", DType::u8, Shape{5}}, {"f64", DType::f64, Shape{}}, {"f32", DType::f32, Shape{2, 1}}},
          7, {{"k", "v"}});
      for (int64_t i = 0; i < rows; ++i) {
        const std::vector<std::byte> bytes(5, static_cast<std::byte>(i));
        const double number = 1.5 * static_cast<double>(i);
        const float pair[] = {static_cast<float>(i), -static_cast<float>(i)};
        const std::byte* const row[] = {bytes.data(), reinterpret_cast<const std::byte*>(&number),
                                        reinterpret_cast<const std::byte*>(pair)};
        writer.append(row);
      }
      EXPECT_EQ(writer.rows(), rows);
      writer.commit();
    }
    const SafetensorsFile file = load_safetensors(folder / "x");
    EXPECT_EQ(file.metadata.at("k"), "v");
    ASSERT_EQ(file.tensors.size(), 3u);
    ASSERT_EQ(file.tensors[0].first, "f64");
    ASSERT_EQ(file.tensors[2].first, "u8");
    EXPECT_EQ(file.tensors[1].second.shape(), (Shape{rows, 2, 1}));
    for (int64_t i = 0; i < rows; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(values<double>(file.tensors[0].second)[at], 1.5 * static_cast<double>(i));
      EXPECT_EQ(values<float>(file.tensors[1].second)[2 * at + 1], -static_cast<float>(i));
      EXPECT_EQ(values<uint8_t>(file.tensors[2].second)[5 * at + 4], i);
    }
  }
}

TEST(SafetensorsWriter, LeavesNothingWithoutCommit) {
  const TempFolder folder;
  {
    SafetensorsWriter writer(folder / "x", {{"a", DType::u8, Shape{1}}}, 1, {});
    const std::byte byte{1};
    const std::byte* const row[] = {&byte};
    writer.append(row);
    EXPECT_THROW(writer.append(row), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, AFullDiskIsAnErrorThatNamesTheFile) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  try {
    save_safetensors("/dev/full", {{{"a", Tensor::zeros(DType::u8, Shape{1 << 16})}}, {}});
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("/dev/full: cannot write: "), 0u) << error.what();
  }
}

}  // namespace safetensors_test
}  // namespace sparkpilot
