#include "onnx/metadata.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"
#include "base/test_assets.h"
#include "onnx/pickle.h"

namespace sparkpilot {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Python's pickle.dumps({"plan": slice(0, 990), "é": slice(-2, None), "n": slice(None, 70000, 1)}, protocol), in
// base64.
constexpr std::string_view kByPython[] = {
    "KGRwMApWcGxhbgpwMQpjX19idWlsdGluX18Kc2xpY2UKcDIKKEkwCkk5OTAKTnRwMwpScDQKc1bpCnA1CmcyCihJLTIKTk50cDYKUnA3CnNWbgpwOA"
    "pnMgooTkk3MDAwMApJMQp0cDkKUnAxMApzLg==",
    "fXEAKFgEAAAAcGxhbnEBY19fYnVpbHRpbl9fCnNsaWNlCnECKEsATd4DTnRxA1JxBFgCAAAAw6lxBWgCKEr+////"
    "Tk50cQZScQdYAQAAAG5xCGgCKE5KcBEBAEsBdHEJUnEKdS4=",
    "gAJ9cQAoWAQAAABwbGFucQFjX19idWlsdGluX18Kc2xpY2UKcQJLAE3eA06HcQNScQRYAgAAAMOpcQVoAkr+////"
    "Tk6HcQZScQdYAQAAAG5xCGgCTkpwEQEASwGHcQlScQp1Lg==",
    "gAN9cQAoWAQAAABwbGFucQFjYnVpbHRpbnMKc2xpY2UKcQJLAE3eA06HcQNScQRYAgAAAMOpcQVoAkr+////"
    "Tk6HcQZScQdYAQAAAG5xCGgCTkpwEQEASwGHcQlScQp1Lg==",
    "gASVTwAAAAAAAAB9lCiMBHBsYW6UjAhidWlsdGluc5SMBXNsaWNllJOUSwBN3gNOh5RSlIwCw6mUaARK/v///"
    "05Oh5RSlIwBbpRoBE5KcBEBAEsBh5RSlHUu",
    "gAWVTwAAAAAAAAB9lCiMBHBsYW6UjAhidWlsdGluc5SMBXNsaWNllJOUSwBN3gNOh5RSlIwCw6mUaARK/v///"
    "05Oh5RSlIwBbpRoBE5KcBEBAEsBh5RSlHUu",
};

const OutputSlices kExpected{
    {"plan", {0, 990, std::nullopt}}, {"é", {-2, std::nullopt, std::nullopt}}, {"n", {std::nullopt, 70000, 1}}};

TEST(OutputSlices, ReadsEveryProtocolOfPython) {
  for (const std::string_view text : kByPython) EXPECT_EQ(parse_output_slices(text), kExpected) << text;
}

TEST(OutputSlices, RoundTrips) {
  EXPECT_EQ(parse_output_slices(write_output_slices(kExpected)), kExpected);
  EXPECT_EQ(parse_output_slices(write_output_slices({})), OutputSlices{});
  const OutputSlices wide{{"x", {INT64_MIN, INT64_MAX, std::nullopt}}};
  EXPECT_EQ(parse_output_slices(write_output_slices(wide)), wide);
}

TEST(OutputSlices, ResolveAsPythonDoes) {
  const auto resolve = [](std::optional<int64_t> start, std::optional<int64_t> stop, int64_t length) {
    return OutputSlice{start, stop, std::nullopt}.resolve(length);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(resolve(-2, std::nullopt, 1000), Pair(998, 1000));
  EXPECT_EQ(resolve(0, std::nullopt, 7), Pair(0, 7));
  EXPECT_EQ(resolve(3, 99, 7), Pair(3, 7));
  EXPECT_EQ(resolve(5, 2, 7), Pair(5, 5));
  EXPECT_EQ(resolve(INT64_MIN, INT64_MAX, 7), Pair(0, 7));
  EXPECT_THROW((OutputSlice{0, 4, 2}.resolve(7)), Error);
}

TEST(OutputSlices, MoveWithARangeThatIsLeft) {
  const OutputSlices slices{{"before", {0, 4, {}}}, {"across", {3, 6, {}}}, {"first", {4, 6, {}}},  {"step", {4, 9, 2}},
                            {"none", {5, 5, {}}},   {"last", {-4, -1, {}}}, {"after", {-1, {}, {}}}};
  const OutputSlices expected{{"first", {0, 2, {}}}, {"last", {2, 5, {}}}};
  EXPECT_EQ(slices_within(slices, 10, 4, 9), expected);
}

TEST(Pickle, RefusesEverythingElse) {
  const std::string_view bad[] = {
      "",                                        // empty
      ".",                                       // nothing on the stack
      "N",                                       // no end
      "NN.",                                     // two objects
      "(N.",                                     // a mark left on the stack
      "cos\nsystem\n(S'true'\ntR.",              // a call
      "cbuiltins\neval\n(V1+1\ntR.",             // another call
      "cbuiltins\nslice\n(I1\nI2\nI3\nI4\ntR.",  // too many bounds
      "cbuiltins\nslice\n(V1\ntR.",              // a bound that is not a number
      "\x80\x06N.",                              // a newer protocol
      "I99999999999999999999\n.",                // more than 64 bits
      "\x8a\x09"
      "123456789.",                       // likewise
      "I01\n.",                           // a bool
      "G@\x00\x00\x00\x00\x00\x00\x00.",  // a float
      "}K\x01Ns.",                        // a key that is not a string
      "}(Vx\nu.",                         // a key without a value
      "Na.",                              // append without a list
      "]s.",                              // items without a dictionary
      "h\x05.",                           // an empty slot
      "X\xff\xff\xff\xff"
      "abc.",                                   // longer than the bytes
      "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",  // likewise
      "V\\ud800\n.",                            // half a character
      "0.",
      "1.",
      "t.",
      "\x93.",
      "R.",
      "\x94.",
      "q",
      "\x85.",
  };
  for (const std::string_view text : bad) EXPECT_THROW(Pickle(bytes_of(text)), Error) << text;
}

TEST(Pickle, SharedAndCyclicObjectsCostNothing) {
  // A list doubled forty times, and a dictionary that holds itself.
  std::string doubled = "]q\x01";
  const std::string twice =
      "0]h\x01"
      "ah\x01"
      "aq\x01";
  for (int i = 0; i < 40; ++i) doubled += twice;
  EXPECT_NO_THROW(Pickle(bytes_of(doubled + ".")));
  const Pickle cyclic(bytes_of(std::string_view("}q\x01Vself\nh\x01s.")));
  EXPECT_EQ(cyclic.items(cyclic.root(), "it").at(0).second, cyclic.root());
}

TEST(Pickle, EveryPrefixIsRefused) {
  const std::vector<std::byte> whole = decode_base64(kByPython[4]);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(Pickle(std::span(whole).first(size)), Error) << size;
  }
}

TEST(Base64, RefusesWhatIsNone) {
  EXPECT_THROW(decode_base64("abc"), Error);
  EXPECT_THROW(decode_base64("a=bc"), Error);
  EXPECT_THROW(decode_base64("===="), Error);
  EXPECT_THROW(decode_base64("ab*d"), Error);
  EXPECT_EQ(decode_base64("  \n").size(), 0U);
  EXPECT_EQ(encode_base64(decode_base64("YWJj\nZA==")), "YWJjZA==\n");
}

TEST(ModelMetadata, ReadsOpenpilotsOwn) {
  const auto folder = assets_folder() / "openpilot_metadata";
  const auto path = folder / "driving_policy_metadata_2025-08-19.pkl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".pkl") continue;
    const std::string bytes = read_file(entry.path());
    EXPECT_FALSE(parse_metadata_pickle(bytes_of(bytes)).slices.empty()) << entry.path();
    ++read;
  }
  EXPECT_GE(read, 6);
  const std::string bytes = read_file(path);
  const ModelMetadata metadata = parse_metadata_pickle(bytes_of(bytes));
  EXPECT_EQ(metadata.checkpoint, "f35eaf21-ef51-413d-9857-398bcdabb7da/400");
  EXPECT_EQ(metadata.slices.at(0), (std::pair<std::string, OutputSlice>{"plan", {0, 4955, std::nullopt}}));
  EXPECT_EQ(metadata.slices.at(3), (std::pair<std::string, OutputSlice>{"pad", {-3, std::nullopt, std::nullopt}}));
  EXPECT_EQ(metadata.input_shapes.at(0).second, (std::vector<int64_t>{1, 25, 8}));
  EXPECT_EQ(metadata.output_shapes.at(0).second, (std::vector<int64_t>{1, 4968}));
}

}  // namespace
}  // namespace sparkpilot
