// sparkpilot stack audit, from outside.
#include <gtest/gtest.h>

#include "cli_fixture.h"
#include "stack/test_files.h"

namespace sparkpilot {
namespace stack_audit_test {

class StackAudit : public Cli {
 protected:
  StackAudit() {
    using stack::ptx, stack::sass;
    write("libcublasLt.so.13.1.0", {ptx(90), sass(90, 'a'), sass(120)});
    write("libnccl.so.2.28.9", {sass(120, 'a')});
    write("libother.so", {});
  }
  void write(const std::string& name, const std::vector<stack::TestImage>& images,
             const std::string& below = "libraries") {
    stack::TestElf elf;
    if (!images.empty()) elf.sections = {{".nv_fatbin", stack::fatbin(images)}};
    std::filesystem::create_directories(folder / below);
    write_text(folder / (below + "/" + name), elf_file(elf));
  }
  std::string quoted(const std::string& name) const { return "'" + folder.file(name) + "'"; }
};

TEST_F(StackAudit, TellsWhatEachLibraryMeans) {
  const json report = parsed("stack audit --gpu gb10 --path " + quoted("libraries"));
  EXPECT_EQ(keys(report),
            (Keys{"gpu", "own_gpu", "own_machine", "places", "libraries", "other_libraries", "absent", "notes"}));
  EXPECT_EQ(report["gpu"]["compute_capability"], "12.1");
  EXPECT_EQ(report["other_libraries"], 1);
  ASSERT_EQ(report["libraries"].size(), 2U);
  const json& nccl = report["libraries"][0];
  EXPECT_EQ(nccl["component"], "NCCL");
  EXPECT_EQ(nccl["verdict"]["standing"], "none") << "120a runs on 12.0 alone";
  const json& blas = report["libraries"][1];
  EXPECT_EQ(blas["version"], "13.1.0");
  EXPECT_EQ(blas["verdict"]["standing"], "family");
  EXPECT_EQ(blas["gpu_code"].size(), 3U);
  EXPECT_EQ(keys(blas["gpu_code"][0]),
            (Keys{"section", "target", "bare", "images", "compressed_images", "bytes", "unpacked_bytes"}));
}

TEST_F(StackAudit, AsATable) {
  const ProgramResult result = run_program("stack audit --gpu gb10 --path " + quoted("libraries"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("sm_90a 120, PTX 90     0/1/0/0  family"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("none of its GPU code runs (\"no kernel image is available\"): libnccl.so.2.28.9"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(result.out.find(" \n"), std::string::npos);
}

TEST_F(StackAudit, WhatIsCutIsShownAndAnEmptyTableIsNot) {
  write("libnccl.so.2", {}, "plain");
  const ProgramResult plain = run_program("stack audit --gpu gb10 --path " + quoted("plain"));
  EXPECT_NE(plain.out.find("\n1 library without GPU code (--all lists them)\n"), std::string::npos) << plain.out;
  EXPECT_EQ(plain.out.find("verdict"), std::string::npos) << plain.out;
  const std::string whole = read_text(folder / "libraries/libnccl.so.2.28.9");
  write_text(folder / "plain/libnccl.so.2", whole.substr(0, whole.size() / 2));
  const ProgramResult cut = run_program("stack audit --gpu gb10 --path " + quoted("plain"));
  EXPECT_NE(cut.out.find("unreadable"), std::string::npos) << cut.out;
  EXPECT_NE(cut.out.find("it is cut"), std::string::npos) << cut.out;
}

TEST_F(StackAudit, ARecordingIsJudgedForAnotherGpu) {
  const ProgramResult recorded = run_program("stack audit --json --path " + quoted("libraries"));
  write_text(folder / "recorded.json", recorded.out);
  const json report = parsed("stack audit --gpu gh200 --from " + quoted("recorded.json"));
  EXPECT_EQ(report["libraries"][0]["verdict"]["standing"], "none");
  EXPECT_EQ(report["libraries"][1]["verdict"]["standing"], "native");
  expect_usage_error("stack audit --from " + quoted("libraries/libother.so"),
                     "no audit that stack audit --json wrote: it is not even JSON");
}

TEST_F(StackAudit, TwoFoldersAreCompared) {
  write("libcublasLt.so.13.2.0", {stack::sass(121)}, "newer");
  write("libnccl.so.2.28.9", {stack::sass(120, 'a')}, "newer");
  const std::string both = "--diff " + quoted("libraries") + " " + quoted("newer");
  const json report = parsed("stack audit --gpu gb10 " + both);
  ASSERT_EQ(report["differences"].size(), 1U);
  EXPECT_EQ(report["differences"][0]["a"]["standing"], "family");
  EXPECT_EQ(report["differences"][0]["b"]["standing"], "native");
  EXPECT_EQ(report["differences"][0]["gained"], json::array({"sm_121"}));
  EXPECT_NE(run_program("stack audit " + both).out.find("+sm_121"), std::string::npos);
}

TEST_F(StackAudit, AnotherTreeIsLookedThroughFromItsRoot) {
  write("libcudnn.so.9.13.0", {stack::sass(121)}, "root/usr/lib/aarch64-linux-gnu");
  const json report = parsed("stack audit --gpu gb10 --root " + quoted("root"));
  ASSERT_EQ(report["libraries"].size(), 1U);
  EXPECT_EQ(report["libraries"][0]["path"], "/usr/lib/aarch64-linux-gnu/libcudnn.so.9.13.0");
}

TEST_F(StackAudit, AsAPlanAndItsScripts) {
  const std::string here = " --gpu gb10 --path " + quoted("libraries");
  const json report = parsed("stack plan" + here + " --script " + quoted("plan"));
  EXPECT_EQ(keys(report["steps"][0]), (Keys{"id", "title", "reason", "size", "check"}));
  std::set<std::string> steps;
  for (const json& step : report["steps"]) steps.insert(step["id"]);
  EXPECT_EQ(steps.count("nccl"), 1U) << "120a does not run";
  EXPECT_EQ(steps.count("cublas"), 0U) << "120 does";
  EXPECT_EQ(access(folder.file("plan/run.sh").c_str(), X_OK), 0);
  EXPECT_NE(read_text(folder / "plan/versions.sh").find("SPARKPILOT=${SPARKPILOT:-/"), std::string::npos);
  EXPECT_NE(run_program("stack plan" + here).out.find("1. the CUDA toolkit's compilers"), std::string::npos);

  const ProgramResult verified = run_program("stack verify --json" + here);
  EXPECT_EQ(verified.code, 4);
  const json checks = json::parse(verified.out);
  EXPECT_EQ(checks["good"], false);
  EXPECT_EQ(checks["checks"][1]["step"], "cublas");
  EXPECT_EQ(checks["checks"][1]["good"], true);
  expect_usage_error("stack plan --gpu h200 --path " + quoted("libraries"),
                     "the plan is for compute capability 12.x with an Arm64 processor");
}

TEST_F(StackAudit, APlanForAnotherGpuThanTheMachinesOwnIsTold) {
  json audit = parsed("stack audit --path " + quoted("libraries"));
  const std::string from = " --gpu gb10 --from " + quoted("recorded.json");
  for (const char* own : {"9.0", "12.1"}) {
    audit["own_gpu"] = {{"name", "NVIDIA X"}, {"compute_capability", own}, {"machine", "aarch64"}};
    write_text(folder / "recorded.json", audit.dump());
    for (const char* command : {"stack plan", "stack verify"}) {
      const ProgramResult result = run_program(command + from);
      EXPECT_EQ(result.err, own == std::string("12.1") ? ""
                                                       : "this is for gb10 (compute capability 12.1, aarch64); "
                                                         "the machine's own GPU is NVIDIA X (compute capability 9.0, "
                                                         "aarch64)\n");
      const json report = json::parse(run_program(command + from + " --json").out);
      EXPECT_EQ(report["gpu"]["compute_capability"], "12.1");
      EXPECT_EQ(report["own_gpu"]["compute_capability"], own);
    }
  }
}

// A current folder that is gone stops nothing but relative paths.
TEST_F(StackAudit, ACurrentFolderThatIsGone) {
  const std::string gone = "mkdir " + quoted("gone") + "; cd " + quoted("gone") + "; rmdir " + quoted("gone") + "; ";
  const ProgramResult found = run_program("stack audit --gpu gb10 --json --path " + quoted("libraries"), gone);
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(json::parse(found.out)["libraries"].size(), 2U);
  const ProgramResult refused = run_program("stack audit --gpu gb10 --path x.whl", gone);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "sparkpilot stack audit: x.whl: the current folder: No such file or directory\n");
}

TEST_F(StackAudit, WrongUsageIsRefused) {
  // Said before anything is read.
  for (const std::string command : {"audit", "plan", "verify"}) {
    expect_usage_error("stack " + command + " --gpu voodoo --path " + quoted("nowhere"),
                       "no GPU is known as \"voodoo\"");
  }
  expect_usage_error("stack audit --path " + quoted("nowhere"), "no such file or folder");
  expect_usage_error("stack audit --python " + quoted("libraries"), "no Python environment");
  expect_usage_error("stack audit --root " + quoted("nowhere"), "expected a folder");
  expect_usage_error("stack audit --diff " + quoted("libraries"), "--diff");
}

}  // namespace stack_audit_test
}  // namespace sparkpilot
