#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "comm/nccl_api.h"

namespace sparkpilot::nccl {
namespace {

std::string why_not(const std::string& library) {
  try {
    load_nccl(library);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    return error.what();
  }
  return "loaded";
}

TEST(Nccl, SaysWhyItCannotBeLoaded) {
  EXPECT_EQ(why_not("/nonexistent/libnccl.so.2").find("NCCL cannot be loaded: /nonexistent/libnccl.so.2: "), 0U);
  const std::string other = why_not("libm.so.6");
  EXPECT_NE(other.find("libm.so.6 has no nccl"), std::string::npos) << other;
  EXPECT_NE(other.find("2.14.0 or newer is needed"), std::string::npos) << other;
}

TEST(Nccl, VersionsAreThoseOfItsReleases) {
  EXPECT_EQ(version_text(22809), "2.28.9");
  EXPECT_EQ(version_text(21400), "2.14.0");
  EXPECT_EQ(version_text(2708), "2.7.8");
}

}  // namespace
}  // namespace sparkpilot::nccl
