#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sparkpilot {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(Json, IsReadToALimitedDepth) {
  EXPECT_EQ(json_text(parse_json(nested(kDeepestJson))), nested(kDeepestJson));
  EXPECT_FALSE(parse_bounded(nested(kDeepestJson + 1)));
  EXPECT_FALSE(parse_bounded(nested(1'000'000)));
  EXPECT_TRUE(parse_json_or_discard(nested(1'000'000)).is_discarded());
  EXPECT_THROW(parse_json(nested(1'000'000)), Error);
}

TEST(Json, WhatIsNoneThrowsOrIsDiscarded) {
  for (const char* text : {"", "{", "[1,]", "nan", "{\"a\":1} x", "\"\xff\""}) {
    EXPECT_THROW(parse_bounded(text), nlohmann::json::exception) << text;
    EXPECT_THROW(parse_json(text), nlohmann::json::exception) << text;
    EXPECT_TRUE(parse_json_or_discard(text).is_discarded()) << text;
  }
  EXPECT_EQ(parse_json_or_discard("[1]"), nlohmann::ordered_json({1}));
}

TEST(Json, IsWhatTheLibraryReads) {
  for (const char* text :
       {"null", " -1.5e3 ", "18446744073709551615", "-9223372036854775808", "18446744073709551616", "\"\\u00e9\\n\"",
        "[]", "{}", R"([1,[2,{"a":[],"b":{}}],true,false,"x",null,{"z":1,"a":{"y":[0.25,{"x":[[]]}]}}])",
        R"({"b":1,"a":2,"b":[3,4],"c":{"b":5}})"}) {
    EXPECT_EQ(json_text(parse_json(text)), nlohmann::ordered_json::parse(text).dump()) << text;
  }
  std::string error;
  try {
    parse_json("{\"a\": [1, 2,, 3]}");
  } catch (const nlohmann::json::parse_error& problem) {
    error = problem.what();
  }
  EXPECT_NE(error.find("line 1, column 13"), std::string::npos) << error;
  EXPECT_THROW(parse_json("1e999"), nlohmann::json::out_of_range);
}

// In a time that grows with the length, which is not measured here: with the square of it this takes minutes.
TEST(Json, ManyMembersAndElementsAreRead) {
  constexpr int kMany = 200'000;
  std::string object = "{", array = "[";
  for (int i = 0; i < kMany; ++i) {
    object += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":{}";
    array += i > 0 ? ",{}" : "{}";
  }
  EXPECT_EQ(parse_json(object + "}").size(), kMany);
  EXPECT_EQ(parse_json(array + "]").size(), kMany);
}

TEST(Json, IsWrittenInTheOrderOfItsMembers) {
  const nlohmann::ordered_json json{{"b", 1}, {"a", {0.1, nullptr}}};
  EXPECT_EQ(json_text(json), R"({"b":1,"a":[0.1,null]})");
  EXPECT_EQ(json_text(json, 1), "{\n \"b\": 1,\n \"a\": [\n  0.1,\n  null\n ]\n}");
  EXPECT_EQ(json_text(nlohmann::json(json)), R"({"a":[0.1,null],"b":1})");
}

TEST(Json, BytesThatAreNoUtf8AreReplaced) { EXPECT_EQ(json_text(nlohmann::json("a\xff z")), "\"a\xef\xbf\xbd z\""); }

}  // namespace
}  // namespace sparkpilot
