#include "stack/fatbin.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/error.h"
#include "base/test_files.h"
#include "stack/test_files.h"

namespace sparkpilot::stack {
namespace {

// Counts the bytes read, to bound the work.
class CountingSource : public Source {
 public:
  explicit CountingSource(const std::string& bytes) : inner_(bytes) {}
  uint64_t size() const override { return inner_.size(); }
  void read(uint64_t offset, std::span<std::byte> out) const override {
    bytes_read += out.size();
    inner_.read(offset, out);
  }
  mutable uint64_t bytes_read = 0;

 private:
  MemorySource inner_;
};

std::vector<Fatbin> found_in(const std::string& bytes) {
  std::vector<Fatbin> list;
  find_fatbins(MemorySource(bytes), 0, bytes.size(), [&](const Fatbin& fatbin) { list.push_back(fatbin); });
  return list;
}

std::string text(const Fatbin& fatbin) {
  std::string out;
  for (const FatbinImage& image : fatbin.images) out += (out.empty() ? "" : " ") + image.target.str();
  return out;
}

TEST(Fatbin, TellsKindsAndArchitectures) {
  const auto list =
      found_in(fatbin({ptx(120), sass(75), sass(90, 'a'), sass(120, 'f'), {8, 80}, {64, 80}, ptx(121, 'a')}));
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(text(list[0]), "compute_120 sm_75 sm_90a sm_120f lto_80 other_80 compute_121a");
  EXPECT_FALSE(list[0].damaged);
  EXPECT_FALSE(list[0].bare);
  EXPECT_EQ(list[0].images[0].ptx_major, 9);
  EXPECT_EQ(list[0].images[0].ptx_minor, 3);
  EXPECT_EQ(list[0].images[1].ptx_major, 0);
}

TEST(Fatbin, TellsWhatIsCompressed) {
  const auto list = found_in(fatbin({{2, 120, '\0', true, 48, 4096}, {2, 121, '\0', false, 48}}));
  ASSERT_EQ(list.at(0).images.size(), 2U);
  EXPECT_TRUE(list[0].images[0].compressed);
  EXPECT_EQ(list[0].images[0].bytes, 48U);
  EXPECT_EQ(list[0].images[0].unpacked_bytes, 4096U);
  EXPECT_FALSE(list[0].images[1].compressed);
  EXPECT_EQ(list[0].images[1].unpacked_bytes, 48U);
}

TEST(Fatbin, IsFoundBetweenOtherData) {
  std::string bytes(200'000, 'z');
  bytes += fatbin({sass(80)});
  bytes += std::string(64, '\0') + fatbin({sass(90)}) + fatbin({});
  bytes += std::string(1'000'000, 'z') + fatbin({sass(100)});
  const auto list = found_in(bytes);
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].offset, 200'000U);
  EXPECT_EQ(text(list[0]) + text(list[1]) + text(list[2]) + text(list[3]), "sm_80sm_90sm_100");
}

TEST(Fatbin, OnlyWholePositionsCount) {
  EXPECT_EQ(found_in(std::string(4, 'z') + fatbin({sass(80)})).size(), 0U);
  EXPECT_EQ(found_in(std::string(8, 'z') + fatbin({sass(80)})).size(), 1U);
  // A section may begin anywhere; alignment is relative to the file.
  const std::string bytes = std::string(8, 'z') + fatbin({sass(80)});
  int found = 0;
  find_fatbins(MemorySource(bytes), 3, bytes.size(), [&](const Fatbin&) { ++found; });
  EXPECT_EQ(found, 1);
}

TEST(Fatbin, NothingIsTakenFromInsideAContainer) {
  const std::string inner = fatbin({sass(50)});
  std::string outer = fatbin({{2, 120, '\0', false, inner.size()}});
  std::copy(inner.begin(), inner.end(), outer.end() - static_cast<std::ptrdiff_t>(inner.size()));
  ASSERT_EQ(found_in(outer).size(), 1U);
  EXPECT_EQ(text(found_in(outer)[0]), "sm_120");
}

TEST(Fatbin, BareMachineCodeIsFound) {
  const auto list = found_in(std::string(16, '\0') + cubin(120) + cubin(90, false) + fatbin({sass(80)}));
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(text(list[0]), "sm_120");
  EXPECT_EQ(text(list[1]), "sm_90");
  EXPECT_TRUE(list[0].bare && list[1].bare);
  EXPECT_FALSE(list[2].bare);
  std::string host = cubin(120);
  poke(host, 18, 183, 2);  // an ELF file for a processor
  EXPECT_EQ(found_in(host).size(), 0U);
}

TEST(Fatbin, DamageKeepsWhatCameBeforeAndTheSearchGoesOn) {
  const std::string good = fatbin({sass(80), sass(90), sass(100)});
  std::string bytes = good;
  poke(bytes, 16 + 128 + 8, uint64_t{1} << 60, 8);  // the second image ends far beyond the file
  const auto list = found_in(bytes + fatbin({sass(120)}));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_TRUE(list[0].damaged);
  EXPECT_EQ(text(list[0]), "sm_80");
  EXPECT_EQ(text(list[1]), "sm_120");
  const auto cut = found_in(good.substr(0, good.size() - 8));
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_TRUE(cut[0].damaged);
  EXPECT_EQ(text(cut[0]), "sm_80 sm_90");
}

TEST(Fatbin, HeadersThatAreNoneAreNotTaken) {
  std::string bytes = fatbin({sass(80)});
  for (const auto& [at, value] : {std::pair<size_t, uint64_t>{4, 2}, {6, 24}, {16 + 4, 8}, {16 + 4, 1U << 30}}) {
    std::string changed = bytes;
    poke(changed, at, value, at == 16 + 4 ? 4 : 2);
    EXPECT_EQ(found_in(changed).size(), 0U) << at;
  }
}

// Containers that all claim the whole rest, with broken chains of images: each byte is still read a bounded number of
// times.
TEST(Fatbin, OverlappingClaimsCostNoMore) {
  std::string bytes;
  for (int i = 0; i < 2000; ++i) {
    std::string one = fatbin({{2, 80, '\0', false, 0}, {2, 80, '\0', false, 0}});
    poke(one, 8, uint64_t{1} << 62, 8);
    bytes += one;
  }
  const CountingSource source(bytes);
  int64_t images = 0;
  find_fatbins(source, 0, bytes.size(), [&](const Fatbin& fatbin) { images += std::ssize(fatbin.images); });
  EXPECT_GT(images, 0);
  EXPECT_LT(source.bytes_read, bytes.size() * 40);

  std::string magics;
  for (int i = 0; i < 20000; ++i) put(magics, 0x00100001ba55ed50U, 8);  // a magic number at each position
  const CountingSource worst(magics);
  find_fatbins(worst, 0, magics.size(), [](const Fatbin&) {});
  EXPECT_LT(worst.bytes_read, magics.size() * 60);
}

TEST(Fatbin, CutOrChangedAnywhereItIsReadToTheEnd) {
  const std::string good =
      cubin(90) + fatbin({sass(80), {2, 120, 'f', true, 40, 100}}) + std::string(24, '\1') + fatbin({ptx(75)});
  for (size_t length = 0; length < good.size(); ++length) found_in(good.substr(0, length));
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random() % 2 ? random() : 0xff);
    for (const Fatbin& fatbin : found_in(bytes)) ASSERT_LT(fatbin.offset, bytes.size());
  }
}

// What NVIDIA's own compiler writes, where it is installed.
TEST(Fatbin, ReadsWhatNvccWrites) {
  if (std::system("command -v nvcc >/dev/null 2>&1") != 0) GTEST_SKIP() << "nvcc is not installed";
  if (std::system("nvcc --list-gpu-arch 2>/dev/null | grep -q compute_121") != 0) {
    GTEST_SKIP() << "this nvcc does not know compute_121";
  }
  const TempFolder folder;
  const std::string command =
      "cd " + folder.path().string() +
      " && echo '__global__ void k(float* x) { *x *= 2; }' >k.cu && nvcc -fatbin k.cu -o k.fatbin"
      " -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_100f,code=sm_100f"
      " -gencode arch=compute_121a,code=[sm_121a,compute_121a] -gencode arch=compute_120,code=[sm_120,compute_120]";
  const int status = std::system(command.c_str());
  const std::string bytes = status == 0 ? read_file(folder / "k.fatbin") : std::string();
  ASSERT_EQ(status, 0);
  const auto list = found_in(bytes);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_FALSE(list[0].damaged);
  std::vector<std::string> targets;
  for (const FatbinImage& image : list[0].images) {
    targets.push_back(image.target.str());
    EXPECT_EQ(image.ptx_major >= 9, image.target.kind == CodeKind::ptx);
  }
  std::sort(targets.begin(), targets.end());
  EXPECT_EQ(targets,
            (std::vector<std::string>{"compute_120", "compute_121a", "sm_100f", "sm_120", "sm_121a", "sm_90a"}));
}

}  // namespace
}  // namespace sparkpilot::stack
