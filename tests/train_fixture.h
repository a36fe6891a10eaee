// For tests of sparkpilot train: small data sets, and the program on them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "cli_fixture.h"
#include "shared_folder.h"
#include "tensor/safetensors.h"

namespace sparkpilot {

// Two data sets of one second of two roads: with a teacher's answers for the two networks, and with labels for one.
class TrainCli : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared = new SharedFolder("train");
    shared->fill(make);
  }
  static void TearDownTestSuite() { delete shared; }
  static void make() {
    const std::string models = shared->file("models"), one = shared->file("one"), teacher = shared->file("teacher");
    run("zoo build --quiet tiny_driving_policy tiny_driving_vision --out '" + models + "'");
    run("zoo build --quiet --seed 2 tiny_driving_policy tiny_driving_vision --out '" + teacher + "'");
    run("zoo build --quiet tiny_driving_supercombo --out '" + one + "'");
    const std::string roads = "dataset build --quiet --synthetic 2 --seconds 2 --validation 0.5 --out '";
    run(roads + shared->file("answers") + "' --models '" + teacher + "'");
    run(roads + shared->file("roads") + "' --supercombo '" + one + "/tiny_driving_supercombo.onnx' --no-teacher");
  }
  // On the CPU, where the tests' program finds an emulated GPU too.
  static void run(const std::string& words) {
    const ProgramResult result = run_program(words, "CUDA=0");
    ASSERT_EQ(result.code, 0) << words << "\n" << result.err;
  }
  static std::string both() {
    return "--models '" + shared->file("models") + "' --data '" + shared->file("answers") + "' ";
  }
  static std::string one() {
    return "--supercombo '" + shared->file("one") + "/tiny_driving_supercombo.onnx' --data '" + shared->file("roads") +
           "' ";
  }
  std::string out(const std::string& name) { return "--out '" + folder.file(name) + "' "; }
  static json parsed(const std::string& words) {
    const ProgramResult result = run_program("train " + words + " --json");
    EXPECT_EQ(result.code, 0) << words << "\n" << result.err;
    return json::parse(result.out, nullptr, false);
  }
  static void expect_refused(const std::string& words, const std::string& why) {
    const ProgramResult result = run_program("train " + words + " --quiet");
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_EQ(result.out, "") << words;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
  }
  inline static SharedFolder* shared = nullptr;
  TempFolder folder;
};

// An adapter's tensors by name.
inline std::map<std::string, Tensor> tensors_of(const std::string& file) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, tensor] : load_safetensors(file).tensors) all[name] = tensor;
  return all;
}

}  // namespace sparkpilot
