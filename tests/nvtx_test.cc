// Ranges for NVIDIA's profilers (runtime/nvtx.h), taken down by a library that stands in a profiler's place.
#include <fstream>
#include <map>
#include <sstream>

#include "cli_fixture.h"
#ifdef EMULATED_CUDA
#include "ops/cuda/images.h"
#endif

namespace sparkpilot {
namespace nvtx_test {

// What was taken down: the steps of each range named "run", in order.
struct Ranges {
  std::string domain;
  std::vector<std::vector<std::string>> runs;
};

Ranges ranges_of(const std::string& file) {
  Ranges out;
  std::map<std::string, std::vector<std::string>> open;  // by thread
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string thread, what, name;
    words >> thread >> what >> std::ws;
    std::getline(words, name);
    if (thread == "domain") {
      out.domain += what;
      continue;
    }
    std::vector<std::string>& stack = open[thread];
    if (what == "pop") {
      EXPECT_FALSE(stack.empty()) << "more ranges end than begin";
      if (!stack.empty()) stack.pop_back();
      continue;
    }
    if (stack.empty() && name == "run") out.runs.emplace_back();
    if (stack == std::vector<std::string>{"run"}) out.runs.back().push_back(name);
    stack.push_back(name);
  }
  for (const auto& [thread, stack] : open) EXPECT_TRUE(stack.empty()) << "a range does not end";
  return out;
}

class Nvtx : public Cli {
 protected:
  std::string file() const { return folder_.file("ranges"); }
  std::string tool() const { return "NVTX_INJECTION64_PATH='" FAKE_NVTX "' FAKE_NVTX_FILE='" + file() + "' "; }
  std::string trace() const { return folder_.file("trace"); }
  std::string model() const { return "'" + models->file("tiny_driving_policy.onnx") + "'"; }

  TempFolder folder_;
};

// The ranges of a traced run are the trace's events.
void expect_events(const std::string& trace_file, const Ranges& ranges) {
  const json trace = json::parse(read_text(trace_file));
  std::vector<std::string> expected;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    std::string kernels = event["args"]["kernel"];  // of a GPU, behind the name of what launched them
    if (const size_t first = kernels.find(' '); first != std::string::npos) kernels.erase(0, first + 1);
    expected.push_back(event["cat"].get<std::string>() + " " + event["name"].get<std::string>() + " " + kernels);
  }
  EXPECT_GT(expected.size(), 20u);
  EXPECT_EQ(ranges.domain, "sparkpilot");
  ASSERT_EQ(ranges.runs.size(), 1u);
  EXPECT_EQ(ranges.runs[0], expected);
}

TEST_F(Nvtx, TheStepsOfATracedRunAreRanges) {
  const ProgramResult result =
      run_program("run " + model() + " --device cpu --threads 1 --trace '" + trace() + "'", tool());
  ASSERT_EQ(result.code, 0) << result.err;
  expect_events(trace(), ranges_of(file()));
}

// Every profiled run of a session has the same ranges.
TEST_F(Nvtx, TheRunsOfABenchmarkAreRanges) {
  const ProgramResult result =
      run_program("bench " + model() + " --device cpu --threads 1 --runs 15 --warmup 1 --profile", tool());
  ASSERT_EQ(result.code, 0) << result.err;
  const Ranges ranges = ranges_of(file());
  ASSERT_EQ(ranges.runs.size(), 3u);
  EXPECT_GT(ranges.runs[0].size(), 20u);
  for (const std::vector<std::string>& run : ranges.runs) EXPECT_EQ(run, ranges.runs[0]);
}

TEST_F(Nvtx, OnlyAProfiledRunAsksForATool) {
  const std::string plain = "run " + model() + " --device cpu --threads 1",
                    traced = plain + " --trace '" + trace() + "'";
  ASSERT_EQ(run_program(plain, tool()).code, 0);
  EXPECT_FALSE(std::filesystem::exists(file()));
  ASSERT_EQ(run_program(traced, "FAKE_NVTX_FILE='" + file() + "'").code, 0);
  EXPECT_FALSE(std::filesystem::exists(file()));
  ASSERT_EQ(run_program(traced, tool()).code, 0);
  EXPECT_TRUE(std::filesystem::exists(file()));
}

// That is missing, is no library, is another library, cannot start.
TEST_F(Nvtx, ABrokenToolDoesNoHarm) {
  const std::string command = "run " + model() + " --device cpu --threads 1 --json --trace '" + trace() + "'";
  const json expected = json::parse(run_program(command).out)["outputs"];
  std::ofstream(folder_.file("text")) << "no library";
  for (const std::string& broken : {folder_.file("none"), folder_.file("text"), std::string("libm.so.6"),
                                    std::string("/dev/null"), folder_.path().string(), std::string()}) {
    const ProgramResult result = run_program(command, "NVTX_INJECTION64_PATH='" + broken + "'");
    EXPECT_EQ(result.code, 0) << broken << result.err;
    EXPECT_EQ(json::parse(result.out)["outputs"], expected) << broken;
  }
  EXPECT_EQ(run_program(command, tool() + "FAKE_NVTX_REFUSES=1").code, 0);
  EXPECT_FALSE(std::filesystem::exists(file()) && std::filesystem::file_size(file()) > 0);
}

#ifdef EMULATED_CUDA
class NvtxOnGpu : public Nvtx {
 protected:
  void SetUp() override {
    if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
  }
  std::string gpu() const {
    return "LD_LIBRARY_PATH='" EMULATED_CUDA "' EMULATED_GPU=h100 EMULATED_CUDA_REPORT='" + folder_.file("report") +
           "' ";
  }
  int count(const std::string& call) const {
    std::ifstream in(folder_.file("report"));
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("call " + call + " ")) return std::stoi(line.substr(call.size() + 6));
    }
    return 0;
  }
};

// Kernels of a recording belong to no range, so with a tool, and only then, steps are enqueued one by one.
TEST_F(NvtxOnGpu, OnlyForAToolATracedRunIsNotRecorded) {
  const std::string command = "run " + model() + " --device cuda --precision fp16 --json";
  const json expected = json::parse(run_program(command, gpu()).out)["outputs"];
  for (const bool with_tool : {false, true}) {
    const ProgramResult result = run_program(command + " --trace '" + trace() + "'", gpu() + (with_tool ? tool() : ""));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["outputs"], expected);
    EXPECT_EQ(count("cuGraphLaunch"), with_tool ? 0 : 1);
    EXPECT_EQ(ranges_of(file()).runs.size(), with_tool ? 1u : 0u);
    if (with_tool) expect_events(trace(), ranges_of(file()));
  }
}
#endif

}  // namespace nvtx_test
}  // namespace sparkpilot
