#include "base/resolve_in_root.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_files.h"

namespace sparkpilot {
namespace {
namespace fs = std::filesystem;

// root/etc/file, and files outside root that no path may lead to.
class ResolveInRoot : public testing::Test {
 protected:
  ResolveInRoot() : root(outer / "root") {
    fs::create_directories(root / "etc/deep");
    write_text(root / "etc/file", "inside");
    write_text(outer / "secret", "outside");
  }
  void link(const fs::path& path, const fs::path& target) const { fs::create_symlink(target, root / path); }
  std::optional<fs::path> found(const fs::path& path) const { return resolve_in_root(root, path); }
  TempFolder outer;
  fs::path root;
};

TEST_F(ResolveInRoot, PathsWithoutLinks) {
  EXPECT_EQ(found("/etc/file"), "/etc/file");
  EXPECT_EQ(found("/"), "/");
  EXPECT_EQ(found(""), "/");
  EXPECT_EQ(found("etc//./deep/../file"), "/etc/file");
  EXPECT_EQ(found("/etc/deep/"), "/etc/deep");
  EXPECT_EQ(found(std::string("/etc/file\0x", 11)), std::nullopt);
}

TEST_F(ResolveInRoot, AbsoluteLinksBeginAtTheRoot) {
  link("absolute", "/etc/file");
  link("folder", "/etc");
  link("outside", outer.path() / "secret");
  EXPECT_EQ(found("/absolute"), "/etc/file");
  EXPECT_EQ(found("/folder/file"), "/etc/file");
  EXPECT_EQ(found("/folder/.."), "/") << "of where the link leads";
  EXPECT_EQ(found("/outside"), (outer.path() / "secret").string()) << "inside, where nothing is";
  EXPECT_FALSE(fs::exists(root / found("/outside")->relative_path()));
}

TEST_F(ResolveInRoot, NothingIsAboveTheRoot) {
  link("climbing", "../../../../../../secret");
  link("etc/up", "..");
  EXPECT_EQ(found("/../../secret"), "/secret");
  EXPECT_EQ(found("/climbing"), "/secret");
  EXPECT_EQ(found("/etc/up/../../secret"), "/secret");
  EXPECT_EQ(found("/etc/up/etc/up/etc/up/../etc/file"), "/etc/file");
}

TEST_F(ResolveInRoot, WhatIsNotThereIsTakenAsItStands) {
  link("dangling", "/etc/none");
  EXPECT_EQ(found("/dangling"), "/etc/none");
  EXPECT_EQ(found("/dangling/below"), "/etc/none/below");
  EXPECT_EQ(found("/etc/file/below"), "/etc/file/below");
  EXPECT_EQ(found("/none/../etc/file"), std::nullopt);
  EXPECT_EQ(found("/etc/file/../file"), std::nullopt);
}

TEST_F(ResolveInRoot, LinksEnd) {
  link("loop", "loop");
  link("ping", "/pong");
  link("pong", "etc/../ping/deep");
  EXPECT_EQ(found("/loop"), std::nullopt);
  EXPECT_EQ(found("/ping"), std::nullopt);
  EXPECT_EQ(found("/loop/file"), std::nullopt);
  link("1", "etc/file");
  for (int i = 2; i <= 41; ++i) link(std::to_string(i), std::to_string(i - 1));
  EXPECT_EQ(found("/40"), "/etc/file");
  EXPECT_EQ(found("/41"), std::nullopt);
  // The limit counts a path's links in total, however many each part has.
  EXPECT_EQ(found("/40/../../1"), std::nullopt);
}

}  // namespace
}  // namespace sparkpilot
