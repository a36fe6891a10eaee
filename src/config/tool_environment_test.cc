#include "config/tool_environment.h"

#include <gtest/gtest.h>

#include <map>

namespace sparkpilot {
namespace {

using Map = std::map<std::string, std::string>;

Map made(std::string_view device, const DeviceFacts& facts, const std::optional<std::string>& visible = {},
         const std::optional<std::string>& order = {}) {
  Map out;
  for (const ToolVariable& each : tool_environment(device, facts, visible, order)) out[each.name] = each.value;
  return out;
}

const DeviceFacts kNone, kOne{.gpus = {0}}, kThree{.gpus = {0, 1, 2}, .best_gpu = 2}, kComma{.comma_device = true};

TEST(ToolEnvironment, DeviceOnThisMachine) {
  EXPECT_EQ(chosen_device("auto", kNone), "cpu");
  EXPECT_EQ(chosen_device("cuda", kNone), "cpu");
  EXPECT_EQ(chosen_device("auto", kThree), "cuda:2");
  EXPECT_EQ(chosen_device("cuda", kThree), "cuda:2");
  EXPECT_EQ(chosen_device("cuda:0", kThree), "cuda:0");
  EXPECT_EQ(chosen_device("cuda:3", kThree), "cuda:2");
  EXPECT_EQ(chosen_device("cpu", kThree), "cpu");
  EXPECT_EQ(device_missing("cuda", kNone), "no usable NVIDIA GPU");
  EXPECT_EQ(device_missing("cuda:1", kOne), "no such usable NVIDIA GPU; there is cuda:0");
  EXPECT_EQ(device_missing("cuda:3", kThree), "no such usable NVIDIA GPU; there is cuda:0, cuda:1, cuda:2");
  for (const char* device : {"auto", "cpu"}) EXPECT_EQ(device_missing(device, kNone), "");
  for (const char* device : {"auto", "cpu", "cuda", "cuda:0"}) EXPECT_EQ(device_missing(device, kOne), "");
}

Answers gpu(int64_t major, int64_t minor, int64_t multiprocessors, int64_t compute_mode = 0) {
  return {{"capability_major", {major}},
          {"capability_minor", {minor}},
          {"multiprocessors", {multiprocessors}},
          {"compute_mode", {compute_mode}}};
}

TEST(ToolEnvironment, FactsOfTheDriver) {
  GpuDriverAnswers cuda;
  EXPECT_TRUE(device_facts(cuda).gpus.empty());
  EXPECT_EQ(device_facts(cuda).problem, "");
  cuda.state = GpuDriverAnswers::State::failed;
  cuda.error = 100;
  EXPECT_EQ(device_missing("cuda", device_facts(cuda)), "no usable NVIDIA GPU (CUDA_ERROR_NO_DEVICE)");
  cuda = {.state = GpuDriverAnswers::State::answered,
          .devices = {gpu(8, 9, 128), gpu(12, 1, 48, 2), {{"handle", {{}, 101}}}, gpu(12, 0, 84), gpu(12, 0, 170)}};
  const DeviceFacts facts = device_facts(cuda);
  EXPECT_EQ(facts.gpus, (std::vector<int>{0, 3, 4}));  // one prohibits compute, one is lost
  EXPECT_EQ(facts.best_gpu, 4);
  EXPECT_EQ(device_missing("cuda:1", facts), "no such usable NVIDIA GPU; there is cuda:0, cuda:3, cuda:4");
  EXPECT_EQ(device_missing("cuda:3", facts), "");
  cuda.devices = {gpu(6, 1, 20), gpu(7, 5, 68)};
  EXPECT_TRUE(device_facts(cuda).gpus.empty());
  EXPECT_EQ(device_missing("cuda", device_facts(cuda)),
            "no usable NVIDIA GPU (compute capability 7.5; 8.0 or newer is needed)");
  EXPECT_EQ(made("cpu", device_facts(cuda)).at("CUDA_VISIBLE_DEVICES"), "-1");
}

TEST(ToolEnvironment, Choices) {
  EXPECT_EQ(made("auto", kNone), (Map{{"DEV", "CPU"}, {"CPU", "1"}, {"CUDA", "0"}, {"SPARKPILOT_DEVICE", "auto"}}));
  EXPECT_EQ(
      made("auto", kOne),
      (Map{
          {"DEV", "CUDA"}, {"CPU", "0"}, {"CUDA", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}, {"SPARKPILOT_DEVICE", "auto"}}));
  EXPECT_EQ(
      made("cpu", kOne),
      (Map{{"DEV", "CPU"}, {"CPU", "1"}, {"CUDA", "0"}, {"CUDA_VISIBLE_DEVICES", "-1"}, {"SPARKPILOT_DEVICE", "cpu"}}));
  EXPECT_EQ(made("cuda:1", kThree), (Map{{"DEV", "CUDA"},
                                         {"CPU", "0"},
                                         {"CUDA", "1"},
                                         {"CUDA_VISIBLE_DEVICES", "1"},
                                         {"SPARKPILOT_DEVICE", "cuda:0"}}));
  EXPECT_EQ(made("auto", kThree).at("CUDA_VISIBLE_DEVICES"), "2");
  EXPECT_EQ(made("auto", kThree, {}, "PCI_BUS_ID").at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_EQ(made("cpu", kThree, {}, "PCI_BUS_ID").count("CUDA_DEVICE_ORDER"), 0u);
  EXPECT_EQ(made("auto", kComma).at("DEV"), "QCOM");
  EXPECT_EQ(made("auto", kComma).at("QCOM"), "1");
  EXPECT_EQ(made("cpu", kComma).at("DEV"), "CPU");
  EXPECT_EQ(made("cpu", kComma).at("QCOM"), "0");
}

TEST(ToolEnvironment, CountsAmongTheVisible) {
  const std::string list = "5,GPU-8932f937,7";
  EXPECT_EQ(made("cuda:1", kThree, list).at("CUDA_VISIBLE_DEVICES"), "GPU-8932f937");
  EXPECT_EQ(made("auto", kThree, list).at("CUDA_VISIBLE_DEVICES"), "7");
  EXPECT_EQ(made("cuda:0", kThree, ",").at("CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(made("cuda:2", kThree, "4").at("CUDA_VISIBLE_DEVICES"), "2");
}

// In the environment made for a choice, the visible GPUs are taken as the machine's.
TEST(ToolEnvironment, TheSameChoiceAgainChangesNothing) {
  for (const char* device : {"auto", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:2"}) {
    for (const std::optional<std::string>& visible :
         {std::optional<std::string>(), std::optional<std::string>("4,2,0")}) {
      Map first = made(device, kThree, visible);
      const std::string& names = first.at("CUDA_VISIBLE_DEVICES");
      const DeviceFacts left = names == "-1" ? kNone : kOne;
      Map second = first;
      for (const auto& [name, value] : made(first.at("SPARKPILOT_DEVICE"), left, names)) second[name] = value;
      EXPECT_EQ(first, second) << device;
    }
  }
}

TEST(ToolEnvironment, ShellLines) {
  const std::vector<ToolVariable> variables{{"DEV", "CPU"}, {"X", "a'b\\ $(c)`\n"}};
  EXPECT_EQ(shell_lines(variables, Shell::bash), "export DEV='CPU'\nexport X='a'\\''b\\ $(c)`\n'\n");
  EXPECT_EQ(shell_lines(variables, Shell::fish), "set -gx DEV 'CPU'\nset -gx X 'a\\'b\\\\ $(c)`\n'\n");
}

}  // namespace
}  // namespace sparkpilot
