#include "stack/plan.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/test_files.h"
#include "stack/plan_scripts.h"

namespace sparkpilot::stack {
namespace {

const NamedGpu kSpark{"gb10", {12, 1}, "aarch64"};

Library library(const std::string& path, const std::string& component, const std::string& version,
                const std::vector<std::string>& targets, const std::string& package = {}) {
  Library one;
  one.path = path;
  one.component = component;
  one.version = version;
  one.package = package;
  one.machine = "aarch64";
  if (component == "ptxas") {
    for (const std::string& target : targets) one.compiles_for.push_back(*parse_target(target));
    return one;
  }
  for (const std::string& target : targets) {
    one.code.groups.push_back({".nv_fatbin", *parse_target(target), false, 1, 0, 100, 100});
    one.code.mixes.push_back({{*parse_target(target)}, 1});
  }
  return one;
}

// An audit without any problem.
Audit good_audit() {
  Audit audit;
  audit.libraries = {
      library("/usr/local/cuda/bin/ptxas", "ptxas", "13.0.88", {"sm_120", "sm_121"}),
      library("/l/libcublasLt.so.13", "cuBLASLt", "13.1.0", {"sm_120f"}),
      library("/l/libcufile.so.0", "cuFile", "", {}),
      library("/l/libcudnn.so.9", "cuDNN", "9.13.0", {}),
      library("/l/libcudnn_ops.so.9", "cuDNN", "9.13.0", {"sm_121"}),
      library("/l/libcudnn_cnn.so.9", "cuDNN", "9.13.0", {"sm_120f"}),
      library("/l/libnccl.so.2", "NCCL", "2.28.9", {"sm_120"}),
      library("/l/libcusparseLt.so.0", "cuSPARSELt", "0.8.0.4", {"sm_121"}),
      library("/v/triton/bin/ptxas", "ptxas", "12.8.93", {"sm_100"}, "triton"),
      library("/v/triton/bin/ptxas-blackwell", "ptxas", "13.0.48", {"sm_121"}, "triton"),
      library("/v/torch/lib/libtorch_cuda.so", "PyTorch", "2.9.1", {"sm_121"}, "torch"),
      library("/v/torchaudio/lib/libtorchaudio.so", "torchaudio", "2.9.1", {}, "torchaudio"),
      library("/v/torchvision/_C.so", "torchvision", "0.24.1", {"sm_121"}, "torchvision"),
      library("/v/flash_attn_2_cuda.so", "flash-attention", "2.8.3", {"sm_120"}, "flash-attn"),
  };
  return audit;
}

using Ids = std::vector<std::string>;
Ids planned(const Audit& audit) {
  Ids ids;
  for (const PlanStep& step : plan_stack(audit, kSpark)) ids.push_back(step.id);
  return ids;
}
const Ids kAll{"toolkit", "cublas", "cufile", "cudnn",   "nccl",  "cusparselt", "tools",
               "sources", "llvm",   "triton", "pytorch", "audio", "vision",     "flash-attention"};

Library& at(Audit& audit, const std::string& path) {
  return *std::find_if(audit.libraries.begin(), audit.libraries.end(),
                       [&](const Library& l) { return l.path == path; });
}

TEST(Plan, AGoodStackNeedsNothing) {
  EXPECT_EQ(planned(good_audit()), Ids{});
  for (const StackCheck& check : check_stack(good_audit(), kSpark))
    EXPECT_TRUE(check.good) << check.step << ": " << check.seen;
}

TEST(Plan, AnEmptyMachineNeedsEverythingInOrder) { EXPECT_EQ(planned({}), kAll); }

TEST(Plan, OnlyWhatIsMissingIsPlanned) {
  Audit audit = good_audit();
  at(audit, "/l/libcusparseLt.so.0").version = "0.7.1";
  EXPECT_EQ(planned(audit), Ids{"cusparselt"});
  EXPECT_EQ(plan_scripts(plan_stack(audit, kSpark), "sparkpilot").at(2).name, "06-cusparselt.sh")
      << "as in a plan of everything";
  EXPECT_NE(plan_stack(audit, kSpark)[0].reason.find("older than 0.8.0"), std::string::npos);
  audit = good_audit();
  at(audit, "/l/libcudnn_cnn.so.9").code = library("", "", "", {"sm_90"}).code;
  EXPECT_EQ(planned(audit), Ids{"cudnn"}) << "one of cuDNN's libraries does not serve";
  audit = good_audit();
  at(audit, "/l/libcufile.so.0").machine = "x86_64";
  EXPECT_EQ(planned(audit), Ids{"cufile"});
}

TEST(Plan, AnotherPyTorchWantsItsExtensionsAnew) {
  Audit audit = good_audit();
  at(audit, "/v/torch/lib/libtorch_cuda.so").code = library("", "", "", {"sm_120"}).code;
  EXPECT_EQ(planned(audit), (Ids{"tools", "sources", "pytorch", "audio", "vision", "flash-attention"}));
}

TEST(Plan, TritonCountsByTheCompilersThatItBrings) {
  Audit audit = good_audit();
  at(audit, "/v/triton/bin/ptxas-blackwell").compiles_for.clear();
  at(audit, "/v/triton/bin/ptxas-blackwell").compiles_for.push_back(*parse_target("sm_120"));
  EXPECT_EQ(planned(audit), (Ids{"tools", "sources", "llvm", "triton"}));
}

// A build of PyTorch's own brings Triton by another name; a ptxas without nvcc compiles no source.
TEST(Plan, APtxasOfAPackageIsNoToolkit) {
  Audit audit = good_audit();
  at(audit, "/usr/local/cuda/bin/ptxas").package = "nvidia-cuda-nvcc-cu12";
  EXPECT_EQ(planned(audit), Ids{"toolkit"});
  audit.libraries.push_back(library("/usr/local/cuda/bin/nvcc", "nvcc", "13.0.88", {}, "nvidia-cuda-nvcc-cu12"));
  EXPECT_EQ(planned(audit), Ids{});
  audit = good_audit();
  at(audit, "/usr/local/cuda/bin/ptxas").compiles_for.clear();
  for (const char* path : {"/v/triton/bin/ptxas", "/v/triton/bin/ptxas-blackwell"})
    at(audit, path).package = "pytorch-triton";
  EXPECT_EQ(planned(audit), Ids{"toolkit"});
}

TEST(Plan, AnOldCopyElsewhereDoesNoHarm) {
  Audit audit = good_audit();
  audit.libraries.push_back(library("/old/libcusparseLt.so.0", "cuSPARSELt", "0.6.3", {"sm_90"}));
  audit.libraries.push_back(library("/old/torch/lib/libtorch_cuda.so", "PyTorch", "2.4.0", {"sm_90"}));
  EXPECT_EQ(planned(audit), Ids{});
}

TEST(Plan, IsForTheSparkAlone) {
  EXPECT_THROW(plan_stack({}, {"h200", {9, 0}, "aarch64"}), Error);
  EXPECT_THROW(plan_stack({}, {"RTX 5090", {12, 0}, "x86_64"}), Error);
  EXPECT_THROW(check_stack({}, {"12.1", {12, 1}, ""}), Error);
}

// --- the scripts

class PlanScripts : public testing::Test {
 protected:
  PlanScripts() {
    for (const Script& script : plan_scripts(plan_stack({}, kSpark), program.string()))
      write_text(folder / ("plan/" + script.name), script.text);
    write_text(program, "#!/bin/sh\necho \"$1 $2 $VIRTUAL_ENV\" >>'" + folder.file("verified") + "'\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // A program that records its arguments, then does `then`.
  void fake(const std::string& name, const std::string& then) const {
    const std::filesystem::path path = folder / ("bin/" + name);
    write_text(path, "#!/bin/sh\necho \"" + name + " $*\" >>'" + folder.file("calls") + "'\n" + then + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  // The exit code of a script that finds only fakes and the system's basic tools.
  int run(const std::string& script) const {
    const std::string command = "cd '" + folder.file("plan") + "' && env -i HOME='" + folder.file("home") +
                                "' STACK_HOME='" + folder.file("home/stack") + "' CUDA_HOME='" + folder.file("cuda") +
                                "' PATH='" + folder.file("bin") + ":/usr/bin:/bin' bash " + script + " >'" +
                                folder.file("out") + "' 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string calls() const { return read_text(folder / "calls"); }
  std::string said() const { return read_text(folder / "out"); }
  const TempFolder folder;
  const std::filesystem::path program = folder / "it's $HOME}/sparkpilot";  // a path that the shell could misread
};

TEST_F(PlanScripts, HoldToTheRules) {
  for (const Script& script : plan_scripts(plan_stack({}, kSpark), "/opt/sparkpilot")) {
    const bool stops = script.text.find("set -euo pipefail") != std::string::npos;
    EXPECT_EQ(stops, script.name != "versions.sh") << script.name;
    for (const char* wrong :
         {"--no-check-certificate", "--insecure", "http://", "git patch", "v0.9.2", "trusted-host"}) {
      EXPECT_EQ(script.text.find(wrong), std::string::npos) << script.name << ": " << wrong;
    }
  }
}

TEST_F(PlanScripts, PassShellcheck) {
  if (std::system("command -v shellcheck >/dev/null 2>&1") != 0) GTEST_SKIP() << "shellcheck is not installed";
  const std::string command = "cd '" + folder.file("plan") +
                              "' && shellcheck --external-sources --severity=style *.sh >'" + folder.file("out") +
                              "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << said();
}

TEST_F(PlanScripts, RunToTheFirstDownload) {
  fake("apt-get", "");
  fake("sudo", "\"$@\"");
  fake("wget", "exit 8");  // wget's exit code if a server refuses
  EXPECT_NE(run("run.sh"), 0);
  const std::string made = calls();
  EXPECT_NE(made.find("apt-get install -y --no-install-recommends cuda-toolkit-13-0\n"), std::string::npos)
      << said() << made;
  EXPECT_NE(made.find("apt-get install -y --no-install-recommends libnccl2 libnccl-dev\n"), std::string::npos) << made;
  const std::string last = made.substr(made.rfind('\n', made.size() - 2) + 1);
  EXPECT_TRUE(last.starts_with("wget --https-only")) << last;
  EXPECT_NE(last.find("https://developer.download.nvidia.com/compute/cusparselt/0.8.0/local_installers/"
                      "cusparselt-local-repo-ubuntu2404-0.8.0_0.8.0-1_arm64.deb"),
            std::string::npos)
      << last;
  // Run again: finished steps are skipped.
  std::filesystem::remove(folder / "calls");
  EXPECT_NE(run("run.sh"), 0);
  EXPECT_EQ(calls(), last) << said();
  EXPECT_NE(said().find("nccl: done before"), std::string::npos) << said();
}

// Users run build/sparkpilot, which is not in $PATH.
TEST_F(PlanScripts, TheProgramThatWroteThemVerifies) {
  write_text(folder / "home/stack/venv/bin/python", "#!/bin/sh\nexit 7\n");
  std::filesystem::permissions(folder / "home/stack/venv/bin/python", std::filesystem::perms::owner_all);
  EXPECT_EQ(run("verify.sh"), 7) << said();
  EXPECT_EQ(read_text(folder / "verified"), "stack verify " + folder.file("home/stack/venv") + "\n");
  std::filesystem::remove(program);
  EXPECT_EQ(run("run.sh"), 1);
  EXPECT_NE(said().find("sparkpilot does not run here"), std::string::npos) << said();
  EXPECT_FALSE(std::filesystem::exists(folder / "calls")) << "before any step";
}

TEST_F(PlanScripts, ADownloadThatChangedIsRefused) {
  fake("apt-get", "");
  fake("sudo", "\"$@\"");
  fake("dpkg", "");
  fake("cp", "");
  fake("wget", R"(for word; do case $word in --output-document=*) echo bytes >"${word#*=}";; esac; done)");
  ASSERT_EQ(run("06-cusparselt.sh"), 0) << said();
  EXPECT_NE(calls().find("dpkg -i"), std::string::npos);
  const std::filesystem::path home = folder / "home/stack",
                              deb = home / "downloads/cusparselt-local-repo-ubuntu2404-0.8.0_0.8.0-1_arm64.deb";
  std::filesystem::remove(home / "state/cusparselt");
  write_text(deb, "other bytes");
  std::filesystem::remove(folder / "calls");
  EXPECT_EQ(run("06-cusparselt.sh"), 1);
  EXPECT_NE(said().find("expected"), std::string::npos) << said();
  EXPECT_EQ(calls(), "") << "nothing of it is installed";
}

TEST_F(PlanScripts, SourcesAreTakenAtTheirPins) {
  fake(
      "git",
      "case \"$*\" in clone*) for folder; do :; done; mkdir -p \"$folder/.git\" \"$folder/.ci/docker/ci_commit_pins\"; "
      "echo abc123 >\"$folder/.ci/docker/ci_commit_pins/triton.txt\";; *rev-parse*) echo 0123456789;; "
      "*fetch*) exit 9;; esac");
  EXPECT_EQ(run("08-sources.sh"), 9) << said();
  const std::string made = calls();
  EXPECT_NE(made.find("git clone --branch v2.9.1 --depth 1 https://github.com/pytorch/pytorch.git"), std::string::npos)
      << made;
  EXPECT_NE(made.find("fetch --depth 1 origin abc123"), std::string::npos)
      << "Triton's commit is PyTorch's choice: " << made;
  EXPECT_NE(read_text(folder / "home/stack/versions.lock").find("pytorch@v2.9.1 0123456789"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::stack
