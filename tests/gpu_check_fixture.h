// For tests of gpu_check: runs it on the emulated GPU, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/scratch_folder.h"
#include "ops/cuda/images.h"

namespace sparkpilot {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

inline std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class GpuCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
  }

  // The exit code of a command that has the emulated driver; what it prints is in `said`.
  int shell(const std::string& variables, const std::string& command) {
    const fs::path log = scratch_.path() / "log";
    const int status = std::system(("LD_LIBRARY_PATH=" EMULATED_CUDA ":" EMULATED_NCCL " OMP_NUM_THREADS=1 " +
                                    variables + " " + command + " >" + log.string() + " 2>&1")
                                       .c_str());
    said = text_of(log);
    return WEXITSTATUS(status);
  }
  int check(const std::string& variables, const std::string& arguments) {
    return shell(variables, GPU_CHECK " " + arguments + " --tiny --rounds 1 --out " + out.string());
  }
  int table() { return shell("", GPU_CHECK " table " + (out / "gpu_check.json").string()); }
  void write(const std::string& text) const { std::ofstream(out / "gpu_check.json") << text; }
  int64_t files() const { return std::distance(fs::directory_iterator(out), fs::directory_iterator()); }
  Json results() const { return Json::parse(text_of(out / "gpu_check.json")); }
  Json part(const std::string& name) const { return results()["parts"][name]; }

  ScratchFolder scratch_;
  const fs::path out = scratch_.path() / "out";
  std::string said;
};

}  // namespace sparkpilot
