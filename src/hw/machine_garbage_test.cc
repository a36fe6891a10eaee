// Machines that report false values, and machines whose files are damaged.
#include <gtest/gtest.h>

#include <random>

#include "hw/test_machines.h"
#include "hw/test_sanity.h"

namespace sparkpilot {
namespace {

// Garbage yields no values, part by part.
TEST(Garbage, IsLeftOut) {
  const Machine m = machine_of("garbage");
  EXPECT_EQ(m.memory.total, int64_t{127600748} * 1024);  // the only valid line
  EXPECT_EQ(m.memory.free, std::nullopt);
  EXPECT_EQ(m.memory.available, std::nullopt);
  EXPECT_EQ(m.memory.huge_pages, std::nullopt);
  EXPECT_EQ(m.driver.version, std::nullopt);
  EXPECT_EQ(m.driver.cuda, std::nullopt);
  EXPECT_EQ(m.identity.vendor + m.identity.product + m.identity.kernel, "");
  EXPECT_EQ(m.identity.container, std::nullopt);
  EXPECT_EQ(m.cpu.logical, 1);
  EXPECT_TRUE(m.cpu.isa.empty());
  ASSERT_EQ(m.disks.size(), 1U);
  EXPECT_EQ(m.disks[0].total, std::nullopt);
}

// Another source's answers, damaged: truncated, overwritten, exchanged; deterministic for a seed.
class Damaged : public Source {
 public:
  Damaged(Source& inner, unsigned seed) : inner_(inner), random_(seed) {}

  std::optional<std::string> read(const std::string& path, size_t limit) override {
    return harm(inner_.read(path, limit));
  }
  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names = inner_.list(folder);
    for (std::string& name : names) name = harm(name);
    if (below(20) == 0) names.insert(names.end(), 5000, "x");
    return names;
  }
  std::optional<std::string> link(const std::string& path) override { return harm(inner_.link(path)); }
  Access access(const std::string& path) override { return below(10) == 0 ? Access::read_write : inner_.access(path); }
  std::optional<Space> space(const std::string&) override { return Space{number(), number()}; }
  std::optional<std::string> variable(const std::string& name) override { return harm(inner_.variable(name)); }
  std::string architecture() override { return harm(inner_.architecture()); }
  GpuDriverAnswers nvml() override { return harm(inner_.nvml()); }
  GpuDriverAnswers cuda() override { return harm(inner_.cuda()); }
  std::optional<std::vector<std::string>> kernel_log(const std::vector<std::string>&) override { return std::nullopt; }

 private:
  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  int64_t number() {
    constexpr int64_t kNumbers[] = {0, -1, 1, 255, 65535, 4294967295, INT64_MAX, INT64_MIN, int64_t{1} << 40, 100, 12};
    return kNumbers[below(std::size(kNumbers))];
  }
  std::optional<std::string> harm(std::optional<std::string> text) {
    if (!text || below(2) == 0) return text;
    if (below(8) == 0) return std::string();
    if (!text->empty() && below(3) == 0) text->resize(below(static_cast<unsigned>(text->size())));
    for (unsigned i = below(6); i > 0 && !text->empty(); --i) {
      constexpr std::string_view kBytes("\0\n\xff-9:, /%x", 11);
      (*text)[below(static_cast<unsigned>(text->size()))] = kBytes[below(static_cast<unsigned>(kBytes.size()))];
    }
    if (below(20) == 0) text->insert(below(static_cast<unsigned>(text->size() + 1)), std::string(3000, '7'));
    return text;
  }
  std::string harm(const std::string& text) { return *harm(std::optional<std::string>(text)); }
  GpuDriverAnswers harm(GpuDriverAnswers answers) {
    if (below(6) == 0) answers.state = static_cast<GpuDriverAnswers::State>(below(5));
    if (below(6) == 0) answers.processes.resize(below(3));
    for (Answers& device : answers.devices) {
      for (auto& [question, answer] : device) {
        if (below(3) > 0) continue;
        if (below(3) == 0) answer = {"\x01text", 0};
        else answer.value = number(), answer.error = 0;
      }
    }
    if (below(10) == 0 && !answers.devices.empty()) answers.devices.resize(200, answers.devices[0]);
    return answers;
  }

  Source& inner_;
  std::mt19937 random_;
};

TEST(Garbage, NeverThrowsAndNeverTalksNonsense) {
  for (const auto& entry : std::filesystem::directory_iterator(machines_folder())) {
    const std::string name = entry.path().stem().string();
    const auto source = source_of(name);
    for (unsigned seed = 0; seed < 60; ++seed) {
      Damaged damaged(*source, seed);
      const Machine m = probe(damaged);
      ASSERT_EQ(Sanity().check(m), "") << name << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace sparkpilot
