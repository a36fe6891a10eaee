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
  EXPECT_FALSE(parse_bounded(nested(kDeepestJson + 2)));
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

TEST(Json, IsWrittenInTheOrderOfItsMembers) {
  const nlohmann::ordered_json json{{"b", 1}, {"a", {0.1, nullptr}}};
  EXPECT_EQ(json_text(json), R"({"b":1,"a":[0.1,null]})");
  EXPECT_EQ(json_text(json, 1), "{\n \"b\": 1,\n \"a\": [\n  0.1,\n  null\n ]\n}");
  EXPECT_EQ(json_text(nlohmann::json(json)), R"({"a":[0.1,null],"b":1})");
}

TEST(Json, BytesThatAreNoUtf8AreReplaced) { EXPECT_EQ(json_text(nlohmann::json("a\xff z")), "\"a\xef\xbf\xbd z\""); }

}  // namespace
}  // namespace sparkpilot
