#include "bench/facts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "base/error.h"
#include "base/test_files.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

// The values are those of the test suite that FNV's authors publish.
TEST(FileFacts, HashIsFnv1aOfAllBytes) {
  const TempFolder folder;
  const auto of = [&](const std::vector<std::string>& texts) {
    std::vector<std::filesystem::path> files;
    for (const std::string& text : texts) {
      files.push_back(folder / std::to_string(files.size()));
      write_text(files.back(), text);
    }
    return file_facts(files);
  };
  EXPECT_EQ(of({""}).fnv1a_64, "cbf29ce484222325");
  EXPECT_EQ(of({"a"}).fnv1a_64, "af63dc4c8601ec8c");
  EXPECT_EQ(of({"foobar"}).fnv1a_64, "85944171f73967e8");
  EXPECT_EQ(of({"foo", "bar"}).fnv1a_64, "85944171f73967e8") << "a model and its external data";
  EXPECT_EQ(of({"foo", "bar"}).bytes, 6);
  std::string large(5 << 20, 'x');  // more than one piece
  const std::string before = of({large}).fnv1a_64;
  large.back() = 'y';
  EXPECT_NE(of({large}).fnv1a_64, before);
  const std::filesystem::path missing = folder / "none.onnx";
  EXPECT_THROW(file_facts(std::span(&missing, 1)), Error);
}

TEST(MachineFacts, NameWhatIsKnownAndNothingElse) {
  Machine machine;
  machine.cpu.architecture = "aarch64";
  machine.memory.total = 128'000'000'000;
  machine.identity.kernel = "6.8";
  machine.gpus.push_back({.name = "NVIDIA GB10", .capability = ComputeCapability{12, 1}});
  machine.driver.version = "580.95.05";
  CpuFeatures features{.model = "Cortex-X925", .logical = 20, .neon = true, .i8mm = true};
  const Json facts = machine_facts(machine, features);
  EXPECT_EQ(facts["processor"], "Cortex-X925");
  EXPECT_EQ(facts["instruction_sets"], (Json{"neon", "i8mm"}));
  EXPECT_EQ(facts["logical_processors"], 20);
  EXPECT_EQ(facts["memory_bytes"], 128'000'000'000);
  EXPECT_EQ(facts["gpus"][0]["name"], "NVIDIA GB10");
  EXPECT_EQ(facts["gpus"][0]["capability"], "12.1");
  EXPECT_EQ(facts["gpus"][0]["memory_bytes"], nullptr);
  EXPECT_EQ(facts["gpu_driver"], "580.95.05");
  EXPECT_EQ(facts["system"], nullptr);
}

TEST(VersionFacts, NameProgramCompilerAndLibrary) {
  const Json facts = version_facts();
  EXPECT_TRUE(std::regex_match(facts["sparkpilot"].get<std::string>(), std::regex(R"(\d+\.\d+\.\d+)")));
  EXPECT_TRUE(std::regex_match(facts["program_fnv1a_64"].get<std::string>(), std::regex("[0-9a-f]{16}")));
  EXPECT_TRUE(std::regex_search(facts["compiler"].get<std::string>(), std::regex(R"((gcc|clang) \d+)")));
  EXPECT_TRUE(std::regex_match(facts["onednn"].get<std::string>(), std::regex(R"(\d+\.\d+\.\d+)")));
}

TEST(SettingsFacts, AreThoseThatChangeTimes) {
  BenchOptions options;
  options.session.tune = Tune::full;
  options.session.passes.off = {"fold", "cse"};
  options.session.shapes = {{"x", Shape{1, 3}}};
  options.session.dims = {{"batch", 4}};
  const Json facts = settings_facts(options);
  EXPECT_EQ(facts["tune"], "full");
  EXPECT_EQ(facts["passes_off"], (Json{"cse", "fold"}));
  EXPECT_EQ(facts["shapes"]["x"], "[1,3]");
  EXPECT_EQ(facts["dims"]["batch"], 4);
}

}  // namespace
}  // namespace sparkpilot
