// sparkpilot bench as users run it: several models or precisions, and what its JSON says of the machine.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli_fixture.h"

namespace sparkpilot {
namespace {

TEST_F(Cli, BenchComparesInTurns) {
  const std::string quick = " --threads 1 --runs 5 --warmup 1";
  const json document = parsed("bench " + policy() + " --precision fp32,fp16" + quick);
  ASSERT_EQ(document["models"].size(), 2u);
  EXPECT_EQ(document["models"][0]["precision"], "fp32");
  EXPECT_FALSE(document["models"][0].contains("time_ratio"));
  const json& fp16 = document["models"][1];
  EXPECT_EQ(fp16["precision"], "fp16");
  EXPECT_EQ(keys(fp16["time_ratio"]), (Keys{"median", "low", "high", "rounds"}));
  EXPECT_GT(fp16["time_ratio"]["median"], 0);
  EXPECT_LE(fp16["time_ratio"]["low"], fp16["time_ratio"]["high"]);
  EXPECT_EQ(document["models"][0]["file_fnv1a_64"], fp16["file_fnv1a_64"]);

  const std::string two =
      run_program("bench " + policy() + " '" + models->file("tiny_driving_vision.onnx") + "' --profile" + quick).out;
  EXPECT_NE(two.find("90 %"), std::string::npos) << two;
  EXPECT_NE(two.find(" to "), std::string::npos) << two;
  const std::string named = run_program("bench " + policy() + " --precision fp32,fp16" + quick).out;
  EXPECT_NE(named.find("tiny_driving_policy.onnx fp16"), std::string::npos) << named;
  const std::string one = run_program("bench " + policy() + quick).out;
  EXPECT_EQ(one.find("90 %"), std::string::npos) << "one model alone has nothing to be compared with\n" << one;
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 2) << one;
}

TEST_F(Cli, BenchNamesKnownPrecisions) {
  expect_usage_error("bench " + policy() + " --precision fp33", "(did you mean fp32?)");
  expect_usage_error("bench " + policy() + " --precision fp32,fp33", "expected model, fp32, fp16 or bf16");
  expect_usage_error("bench " + policy() + " --precision fp32,,fp16", "an empty item");
  expect_usage_error("bench " + policy() + " --precision fp16,fp16", "fp16 is given twice");
  for (const char* list : {"bf16", "fp32,bf16"}) {
    const ProgramResult lesser = run_program("bench " + policy() + " --precision " + list, "SPARKPILOT_CPU=baseline");
    EXPECT_EQ(lesser.code, 2) << lesser.err;
    EXPECT_NE(lesser.err.find("bf16 needs a CPU with bf16 arithmetic"), std::string::npos) << lesser.err;
  }
}

TEST_F(Cli, BenchSaysWhereAndOfWhat) {
  const json document = parsed("bench " + policy() + " --threads 1 --runs 2 --seed 7 --passes no-fold");
  EXPECT_EQ(keys(document), (Keys{"format", "format_version", "machine", "versions", "models"}));
  EXPECT_EQ(document["format"], "sparkpilot bench");
  EXPECT_EQ(keys(document["machine"]),
            (Keys{"system", "architecture", "processor", "instruction_sets", "logical_processors", "memory_bytes",
                  "operating_system", "kernel", "gpus", "gpu_driver"}));
  EXPECT_GT(document["machine"]["memory_bytes"], 1e8);
  const json version = parsed("version");
  EXPECT_EQ(document["machine"]["processor"], version["processor"]);
  EXPECT_EQ(document["versions"]["sparkpilot"], version["version"]);
  EXPECT_EQ(document["versions"]["compiler"], version["compiler"]);
  const json& model = document["models"][0];
  EXPECT_EQ(model["file_bytes"], std::filesystem::file_size(models->file("tiny_driving_policy.onnx")));
  EXPECT_EQ(model["settings"]["seed"], 7);
  EXPECT_EQ(model["settings"]["passes_off"], json{"fold"});
  EXPECT_EQ(model["settings"]["tune"], "off");
  ASSERT_FALSE(model["choices"].empty());
  EXPECT_EQ(keys(model["choices"][0]), (Keys{"node", "kernel", "chosen_by", "note"}));
}

}  // namespace
}  // namespace sparkpilot
