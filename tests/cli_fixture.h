// Shared by tests of the program's commands: two small models, and helpers to check its answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "program.h"

namespace sparkpilot {

using nlohmann::json;

// The keys of a JSON object.
inline std::set<std::string> keys(const json& object) {
  std::set<std::string> out;
  for (const auto& [key, value] : object.items()) out.insert(key);
  return out;
}
using Keys = std::set<std::string>;

// The program itself, and all its commands and groups of commands.
inline constexpr const char* kCommands[] = {"",
                                            "model",
                                            "model info",
                                            "model check",
                                            "model convert",
                                            "model quantize",
                                            "run",
                                            "bench",
                                            "compare",
                                            "peer",
                                            "zoo",
                                            "zoo list",
                                            "zoo build",
                                            "drive",
                                            "dataset",
                                            "dataset build",
                                            "dataset evaluate",
                                            "dataset info",
                                            "dataset check",
                                            "sim",
                                            "sim list",
                                            "sim run",
                                            "sim show",
                                            "sim compare",
                                            "sim tune",
                                            "sim fit",
                                            "sim extract",
                                            "sim tinyphysics",
                                            "doctor",
                                            "ops",
                                            "ops list",
                                            "ops check",
                                            "ops bench",
                                            "route",
                                            "route info",
                                            "route dump",
                                            "route synth",
                                            "monitor",
                                            "env",
                                            "stack",
                                            "stack audit",
                                            "stack plan",
                                            "stack verify",
                                            "completion",
                                            "man",
                                            "version",
                                            "adapter",
                                            "adapter create",
                                            "adapter info",
                                            "adapter merge",
                                            "adapter unmerge",
                                            "adapter diff",
                                            "train"};

class Cli : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models = new TempFolder;
    const ProgramResult result = run_program("zoo build --quiet tiny_driving_policy tiny_driving_vision --out '" +
                                             models->path().string() + "'");
    ASSERT_EQ(result.code, 0) << result.err;
  }
  static void TearDownTestSuite() { delete models; }
  static std::string policy() { return "'" + models->file("tiny_driving_policy.onnx") + "'"; }

  static json parsed(const std::string& arguments, const std::string& before = "") {
    const ProgramResult result = run_program(arguments + " --json", before);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  static void expect_usage_error(const std::string& arguments, const std::string& word,
                                 const std::string& environment = {}) {
    const ProgramResult result = run_program(arguments, environment);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  }
  inline static TempFolder* models = nullptr;
  TempFolder folder;
};

}  // namespace sparkpilot
