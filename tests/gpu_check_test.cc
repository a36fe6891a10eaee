// gpu_check on the emulated GPU: its parts, how it goes on, and how it tells a fault.
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
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class GpuCheck : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::images().empty()) GTEST_SKIP() << "built without nvcc: this program holds no GPU code";
  }

  // The exit code of a command that has the emulated driver; what it prints is in `said`.
  int shell(const std::string& variables, const std::string& command) {
    const fs::path log = scratch_.path() / "log";
    const int status = std::system(("LD_LIBRARY_PATH=" EMULATED_CUDA " OMP_NUM_THREADS=1 " + variables + " " + command +
                                    " >" + log.string() + " 2>&1")
                                       .c_str());
    said = text_of(log);
    return WEXITSTATUS(status);
  }
  int check(const std::string& variables, const std::string& arguments) {
    return shell(variables, GPU_CHECK " " + arguments + " --tiny --rounds 1 --out " + out.string());
  }
  Json results() const { return Json::parse(text_of(out / "gpu_check.json")); }
  Json part(const std::string& name) const { return results()["parts"][name]; }

  ScratchFolder scratch_;
  const fs::path out = scratch_.path() / "out";
  std::string said;
};

class GpuCheckOn : public GpuCheck, public testing::WithParamInterface<const char*> {};

TEST_P(GpuCheckOn, EveryPartPasses) {
  const std::string gpu = std::string("EMULATED_GPU=") + GetParam();
  ASSERT_EQ(check(gpu, "--filter Softmax,sparkpilot::Gemm,tiny_driving_policy_v"), 0) << said;
  for (const char* name : {"words", "ops", "networks", "faults", "limits", "bench"}) {
    EXPECT_TRUE(part(name).value("passed", false)) << name;
    EXPECT_EQ(part(name)["failures"], Json::array()) << name;
  }
  const Json file = results();
  EXPECT_EQ(file["emulated"], true);
  EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 1);
  EXPECT_GT(file["parts"]["ops"]["figures"]["ops"].size(), 2u);
  const Json& network = file["parts"]["networks"]["figures"]["networks"][0];
  ASSERT_EQ(network["precisions"].size(), 3u);
  for (const Json& precision : network["precisions"]) {
    EXPECT_EQ(precision["nodes_on_cpu"], Json::array());
    EXPECT_GT(precision["launches"], 5);
    EXPECT_EQ(precision["copies_to_gpu"] > 0, GetParam() != std::string("gb10"));
  }
  const Json& variants = file["parts"]["bench"]["figures"]["networks"][0]["variants"];
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_GT(variants[0]["gpu"]["compute_ms"]["p50"], 0);
  EXPECT_GT(variants[0]["slowest_nodes"].size(), 5u);
  EXPECT_LE(variants[3]["min_ms"], variants[3]["max_ms"]);
  EXPECT_EQ(file["parts"]["limits"]["figures"]["recordings"].size(), 3u);

  // What is done is not repeated, and changes nothing.
  const std::string before = text_of(out / "gpu_check.json");
  ASSERT_EQ(check(gpu, "words ops bench"), 0);
  EXPECT_NE(said.find("words     passed before"), std::string::npos) << said;
  EXPECT_EQ(text_of(out / "gpu_check.json"), before);
  ASSERT_EQ(check(gpu, "words --again"), 0);
  EXPECT_NE(said.find("words     passed in"), std::string::npos) << said;

  ASSERT_EQ(shell(gpu, GPU_CHECK " table " + (out / "gpu_check.json").string()), 0);
  for (const char* line : {"**NVIDIA ", "**Emulated: its times mean nothing.**", "| words | passed |",
                           "| recording of 1000 kernels |", "| tiny_driving_policy_v0.10.0 | GPU | fp16 | "})
    EXPECT_NE(said.find(line), std::string::npos) << line << "\n" << said;
}

INSTANTIATE_TEST_SUITE_P(Gpus, GpuCheckOn, testing::Values("gb10", "h100"),
                         [](const auto& gpu) { return std::string(gpu.param); });

TEST_F(GpuCheck, APartWhoseTimeIsOverGoesOnInTheNextCall) {
  int calls = 1;
  const std::string parts = "ops --filter Softmax --minutes 0";
  for (int code = check("", parts); code != 0; code = check("", parts), ++calls) {
    ASSERT_EQ(code, 4) << said;
    EXPECT_NE(said.find("ops       unfinished after"), std::string::npos) << said;
    EXPECT_EQ(part("ops")["passed"], false);
    ASSERT_LT(calls, 20);
  }
  EXPECT_GT(calls, 1);  // an op a call
  EXPECT_EQ(part("ops")["figures"]["ops"].size(), static_cast<size_t>(calls));
  EXPECT_EQ(part("ops")["passed"], true);
}

TEST_F(GpuCheck, AFailingPartIsNamedAndTheOthersRun) {
  EXPECT_EQ(check("EMULATED_CUDA_WRONG=word_votes", "words ops --filter Softmax"), 1);
  EXPECT_NE(said.find("words     FAILED in"), std::string::npos) << said;
  EXPECT_NE(said.find("votes: element 0: expected "), std::string::npos) << said;
  EXPECT_EQ(part("words")["passed"], false);
  EXPECT_EQ(part("words")["failures"].size(), 1u);
  EXPECT_EQ(part("ops")["passed"], true);
  EXPECT_EQ(check("", "words ops"), 1) << "a part that failed before is not forgotten";
  EXPECT_EQ(check("", "words --again"), 0) << said;
}

// Every process loses its GPU at its third wait, and a new one goes on with the next op.
TEST_F(GpuCheck, AfterALostGpuANewProcessGoesOn) {
  EXPECT_EQ(check("EMULATED_CUDA_FAIL=cuStreamSynchronize:3:700", "ops --again --filter Softmax,Gelu,Relu"), 1);
  const Json ops = part("ops");
  EXPECT_GT(ops["figures"]["ops"].size(), 3u);
  int lost = 0;
  for (const Json& line : ops["failures"])
    lost += line.get<std::string>().find("a new process went on") != std::string::npos;
  EXPECT_EQ(static_cast<size_t>(lost), ops["figures"]["ops"].size()) << ops["failures"].dump(1);
}

TEST_F(GpuCheck, APartThatEndedTheProgramGoesOnBehindItsItem) {
  ASSERT_EQ(check("", "ops --filter Softmax"), 0) << said;
  Json file = results();
  Json& ops = file["parts"]["ops"];
  const Json whole = ops["figures"]["ops"];
  ASSERT_GT(whole.size(), 1u);
  ops = {{"passed", false}, {"go_on", {{"next", 1}, {"failures", {"Softmax: ended the program"}}}}};
  std::ofstream(out / "gpu_check.json") << file.dump();
  EXPECT_EQ(check("", "ops --filter Softmax"), 1);
  EXPECT_EQ(part("ops")["failures"], Json::array({"Softmax: ended the program"}));
  EXPECT_EQ(part("ops")["figures"]["ops"].size(), whole.size() - 1);
}

TEST_F(GpuCheck, RefusesWhatItCannotUse) {
  EXPECT_EQ(check("EMULATED_GPU=none", "words"), 3) << said;
  EXPECT_EQ(check("", "wheels"), 2);
  EXPECT_NE(said.find("no part is named wheels: expected words, ops"), std::string::npos) << said;
  ASSERT_EQ(check("", "words"), 0) << said;
  EXPECT_EQ(check("EMULATED_GPU=h100", "words"), 2);
  EXPECT_NE(said.find("is of another gpu; choose another --out"), std::string::npos) << said;
  for (const char* text : {"", "[]", "{\"format\":\"sparkpilot gpu_check\",\"gpu\":3,\"parts\":[]}"}) {
    std::ofstream(out / "gpu_check.json") << text;
    EXPECT_EQ(check("", "words"), 2) << said;
    EXPECT_EQ(shell("", GPU_CHECK " table " + (out / "gpu_check.json").string()), 2) << said;
  }
}

TEST_F(GpuCheck, TheScriptRunsPartsAndTellsWhatFailed) {
  const std::string script = SPARKPILOT_SOURCE_DIR "/scripts/gpu_check.sh --tiny --rounds 1 --out " + out.string();
  const std::string program = "GPU_CHECK=" GPU_CHECK " ";
  ASSERT_EQ(shell(program, script + " --parts words,ops,limits --filter Softmax"), 0) << said;
  EXPECT_EQ(part("limits")["passed"], true);
  EXPECT_EQ(results()["commit"].get<std::string>().size() > 6, true);
  EXPECT_EQ(shell(program + "EMULATED_CUDA_WRONG=word_votes", script + " --again --parts words,limits"), 1);
  EXPECT_NE(said.find("words     FAILED"), std::string::npos) << said;
  EXPECT_NE(said.find("limits    passed"), std::string::npos) << said;
  EXPECT_EQ(shell(program, script + " --parts words,wheels"), 2) << said;
  EXPECT_EQ(shell(program, script + " --minutes 900"), 2) << said;
  EXPECT_EQ(shell(program + "EMULATED_GPU=none", script + " --parts words"), 3) << said;
  ASSERT_EQ(shell("", GPU_CHECK " record memcheck --exit 9 --log " + (scratch_.path() / "log").string() + " --commit " +
                          results()["commit"].get<std::string>() + " --out " + out.string()),
            0)
      << said;
  EXPECT_EQ(part("memcheck")["failures"], Json::array({"exit code 9"}));
}

TEST_F(GpuCheck, ModelsOfAFolderAreTaken) {
  const std::string models = (scratch_.path() / "models").string();
  ASSERT_EQ(shell("", SPARKPILOT_PROGRAM " zoo build tiny_driving_policy --out " + models), 0) << said;
  ASSERT_EQ(check("", "networks --filter .onnx --models " + models), 0) << said;
  const Json networks = part("networks")["figures"]["networks"];
  ASSERT_EQ(networks.size(), 1u);
  EXPECT_EQ(networks[0]["network"], "tiny_driving_policy.onnx");
  EXPECT_EQ(check("", "bench --filter .onnx --models " + models + "/none"), 1);
  EXPECT_NE(said.find("--models: "), std::string::npos) << said;
}

TEST_F(GpuCheck, SoakReadsTheSensors) {
  ASSERT_EQ(check("", "soak --soak-minutes 0.001"), 0) << said;
  const Json figures = part("soak")["figures"];
  ASSERT_GE(figures["readings"].size(), 1u);
  EXPECT_EQ(figures["readings"].back().size(), figures["columns"].size());
  EXPECT_GE(figures["readings"].back()[1], 1);
}

TEST_F(GpuCheck, ThePackageNeedsNothingBesidesTheCLibrary) {
  const std::string folder = scratch_.path().string();
  if (fs::path(GPU_CHECK).parent_path() != fs::path(SPARKPILOT_SOURCE_DIR) / "build")
    GTEST_SKIP() << "packages are made of build/";
  ASSERT_EQ(shell("", SPARKPILOT_SOURCE_DIR "/scripts/pack_gpu_check.sh " + folder), 0) << said;
  EXPECT_LT(fs::file_size(scratch_.path() / "gpu_check.tar.gz"), 40u << 20);
  fs::create_directory(scratch_.path() / "there");
  ASSERT_EQ(shell("", "tar -C " + folder + "/there -xzf " + folder + "/gpu_check.tar.gz"), 0) << said;
  const std::string script = "env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH=" EMULATED_CUDA " " + folder +
                             "/there/gpu_check/gpu_check.sh --tiny --parts words,sanitizer --out " + out.string();
  ASSERT_EQ(shell("", script), 0) << said;
  EXPECT_EQ(part("words")["passed"], true);
  const std::string commit = text_of(scratch_.path() / "there/gpu_check/commit");
  EXPECT_EQ(results()["commit"].get<std::string>() + "\n", commit);
}

TEST_F(GpuCheck, EnginesThatAreNotThereAreNamed) {
  ASSERT_EQ(check("PATH=/usr/bin:/bin", "peers --filter tiny_driving_policy_v --engines trtexec --python python3"), 0)
      << said;
  const Json network = part("peers")["figures"]["networks"][0];
  ASSERT_EQ(network["engines"].size(), 1u);
  EXPECT_GT(network["ours"]["p50_ms"], 0);
  EXPECT_NE(network["engines"][0]["not_run"].get<std::string>(), "");
}

}  // namespace
}  // namespace sparkpilot
