#include "stack/audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_files.h"
#include "stack/audit_json.h"
#include "stack/diff.h"
#include "stack/python.h"
#include "stack/test_files.h"
#include "stack/test_zip.h"
#include "stack/tree.h"
#include "stack/verdict.h"

namespace sparkpilot::stack {
namespace {

namespace fs = std::filesystem;

class AuditTest : public testing::Test {
 protected:
  AuditTest() { write("bin/sh", library({})); }

  static std::string library(const std::vector<TestImage>& images, const std::string& soname = {},
                             uint16_t machine = 183) {
    TestElf elf;
    elf.machine = machine;
    elf.soname = soname;
    if (!images.empty()) elf.sections = {{".nv_fatbin", fatbin(images)}};
    return elf_file(elf);
  }
  void write(const fs::path& path, const std::string& bytes) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path, std::ios::binary) << bytes;
  }
  void link(const fs::path& path, const fs::path& target) const {
    fs::create_directories((root / path).parent_path());
    fs::create_symlink(target, root / path);
  }
  void write_package(const fs::path& site, const std::string& name, const std::string& version,
                     const std::string& record) const {
    const fs::path info = site / (name + "-" + version + ".dist-info");
    write(info / "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n\nText\n");
    write(info / "RECORD", record);
  }
  Audit look(AuditOptions options = {}) const {
    options.root = root;
    return audit(options);
  }
  static const Library& find(const Audit& audit, std::string_view path) {
    const auto found =
        std::find_if(audit.libraries.begin(), audit.libraries.end(), [&](const Library& l) { return l.path == path; });
    if (found == audit.libraries.end()) throw std::runtime_error("no " + std::string(path));
    return *found;
  }
  const TempFolder folder;
  const fs::path root = folder.path();
};

TEST_F(AuditTest, FindsTheSystemsLibraries) {
  write("usr/lib/aarch64-linux-gnu/libcudnn.so.9.13.0", library({sass(121)}, "libcudnn.so.9"));
  link("usr/lib/aarch64-linux-gnu/libcudnn.so.9", "libcudnn.so.9.13.0");
  link("usr/lib/aarch64-linux-gnu/libcudnn.so", "libcudnn.so.9");
  write("usr/lib/aarch64-linux-gnu/libz.so.1.3", library({}));
  write("usr/local/cuda-13.0/targets/sbsa-linux/lib/libcublasLt.so.13.1.0.3", library({sass(120)}));
  link("usr/local/cuda-13.0/lib64", "targets/sbsa-linux/lib");
  link("usr/local/cuda", "/etc/alternatives/cuda");
  link("etc/alternatives/cuda", "/usr/local/cuda-13.0");
  write("opt/extra/libnccl.so.2", library({sass(120)}, "libnccl.so.2"));
  write("etc/ld.so.conf.d/extra.conf", "# more\n/opt/extra\n");
  write("opt/path/libcurand.so.10", library({sass(120)}));
  AuditOptions options;
  options.library_folders = {"/opt/path", "/opt/nowhere"};
  const Audit audit = look(options);
  EXPECT_EQ(audit.machine, "aarch64");
  ASSERT_EQ(audit.libraries.size(), 4U) << "each file once, however many links and folders lead to it";
  const Library& dnn = find(audit, "/usr/lib/aarch64-linux-gnu/libcudnn.so.9.13.0");
  EXPECT_EQ(dnn.component, "cuDNN");
  EXPECT_EQ(dnn.version + " " + dnn.version_from, "9.13.0 file name");
  EXPECT_EQ(find(audit, "/usr/local/cuda-13.0/targets/sbsa-linux/lib/libcublasLt.so.13.1.0.3").version, "13.1.0.3");
  EXPECT_EQ(find(audit, "/opt/extra/libnccl.so.2").version_from, "SONAME");
  const auto absent = absent_components(audit);
  EXPECT_EQ(std::count(absent.begin(), absent.end(), "cuDNN"), 0);
  EXPECT_EQ(std::count(absent.begin(), absent.end(), "PyTorch"), 1);
}

TEST_F(AuditTest, AHeaderTellsTheVersionThatNamesLeaveOut) {
  write("usr/local/cuda/lib/libcudnn.so.9", library({sass(121)}, "libcudnn.so.9"));
  write("usr/local/cuda/include/cudnn_version.h",
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR   13\n#define CUDNN_PATCHLEVEL 1\n");
  const Audit audit = look();
  EXPECT_EQ(audit.libraries.at(0).version + " " + audit.libraries[0].version_from, "9.13.1 header");
}

TEST_F(AuditTest, FilesOfAnEnvironmentKnowTheirPackage) {
  const fs::path site = "home/anna/.venv/lib/python3.12/site-packages";
  write(site / "torch/lib/libtorch_cuda.so", library({sass(120)}));
  write(site / "torch/lib/libcudart-12.4.so", library({}));
  write(site / "torch/bin/ptxas", library({}));
  write(site / "odd_name/kernels.so", library({sass(90)}));
  write(site / "numpy/core.so", library({}));
  write(site / "xformers/_C.so", library({ptx(80)}));  // without its record
  write_package(site, "torch", "2.9.1",
                "torch/lib/libtorch_cuda.so,sha256=x,1\n\"torch/lib/libcudart-12.4.so\",,\ntorch/bin/ptxas,,\n");
  write_package(site, "vllm", "0.11.0", "odd_name/kernels.so,sha256=x,1\n");
  write_package(site, "numpy", "2.1.0", "numpy/core.so,,\n");
  const Audit audit = look();
  const std::string prefix = "/" + site.string() + "/";
  EXPECT_EQ(find(audit, prefix + "torch/lib/libtorch_cuda.so").version, "2.9.1");
  EXPECT_EQ(find(audit, prefix + "torch/lib/libtorch_cuda.so").component, "PyTorch");
  const Library& runtime = find(audit, prefix + "torch/lib/libcudart-12.4.so");
  EXPECT_EQ(runtime.component, "CUDA runtime");
  EXPECT_EQ(runtime.version, "12.4") << "a library that comes along has not its host's version";
  EXPECT_EQ(find(audit, prefix + "odd_name/kernels.so").component, "vLLM");
  EXPECT_EQ(find(audit, prefix + "xformers/_C.so").component, "xformers");
  EXPECT_EQ(find(audit, prefix + "torch/bin/ptxas").package, "torch");
  EXPECT_EQ(audit.others, 1) << "numpy";
  AuditOptions named;
  named.environments = {"/home/anna/.venv/bin/python"};
  EXPECT_EQ(look(named).libraries.size(), audit.libraries.size());
  named.environments = {"/home/anna"};
  EXPECT_THROW(look(named), Error);
}

TEST_F(AuditTest, AHomeMayBeAnywhere) {
  write("srv/people/anna/.local/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so", library({sass(120)}));
  EXPECT_TRUE(look().libraries.empty());
  AuditOptions options;
  options.home = "/srv/people/anna";
  EXPECT_EQ(look(options).libraries.size(), 1U);
}

TEST_F(AuditTest, AnEnvironmentIsFoundByThePythonInThePath) {
  write("opt/torch/bin/python3", library({}));
  write("usr/bin/python3", library({}));
  const std::string first = (root / "opt/torch/bin").string(), second = (root / "usr/bin").string();
  EXPECT_EQ(environment_on_path("/none/bin:" + first + ":" + second), root / "opt/torch");
  EXPECT_EQ(environment_on_path(second + ":" + first), root / "usr");
  EXPECT_EQ(environment_on_path("/none/bin::bin"), std::nullopt);
  EXPECT_EQ(environment_on_path(""), std::nullopt);
}

TEST_F(AuditTest, NoLinkLeadsOutOfTheTree) {
  const fs::path outside = root / "outside", inside = root / "tree";
  fs::create_directories(outside);
  std::ofstream(outside / "libcudnn.so.9", std::ios::binary) << library({sass(121)});
  fs::create_directories(inside / "usr/lib");
  fs::create_symlink(outside / "libcudnn.so.9", inside / "usr/lib/libcudnn.so.9");
  fs::create_symlink("../../../../../../../.." + (outside / "libcudnn.so.9").string(),
                     inside / "usr/lib/libcudnn_ops.so.9");
  fs::create_symlink(outside, inside / "usr/local");
  fs::create_symlink("loop", inside / "usr/lib/loop");
  AuditOptions options;
  options.root = inside;
  EXPECT_EQ(audit(options).libraries.size(), 0U);
  const Tree tree(inside);
  EXPECT_EQ(tree.resolve("/usr/lib/../../../../../usr/lib"), fs::path("/usr/lib"));
  EXPECT_FALSE(tree.resolve("/usr/lib/loop"));
  EXPECT_FALSE(tree.resolve("/usr/lib/libcudnn_ops.so.9"));
  EXPECT_THROW(tree.open("/usr/local/libcudnn.so.9"), Error);
}

TEST_F(AuditTest, WhatCannotBeReadIsSaidAndTheRestIsRead) {
  write("usr/lib/libcudnn.so.9", "INPUT(libcudnn.so.9.13)\n");
  write("usr/lib/libcufft.so.12.0.0", library({sass(120)}).substr(0, 30));
  write("usr/lib/libcurand.so.10", library({sass(121)}));
  const std::string whole = library({sass(121), sass(90)});
  write("usr/lib/libnccl.so.2.28.9", whole.substr(0, whole.size() - 64));  // an interrupted download
  fs::create_directories(root / "usr/lib/libcublas.so.13");                // a folder with that name
  const Audit audit = look();
  ASSERT_EQ(audit.notes.size(), 1U);
  EXPECT_NE(audit.notes[0].find("libcudnn.so.9: no ELF file"), std::string::npos);
  EXPECT_NE(find(audit, "/usr/lib/libcufft.so.12.0.0").trouble, "");
  const Library& nccl = find(audit, "/usr/lib/libnccl.so.2.28.9");
  EXPECT_NE(nccl.trouble.find("it is cut"), std::string::npos) << nccl.trouble;
  EXPECT_EQ(judge(nccl, {12, 1}, "aarch64").standing, Standing::unreadable) << "no loader takes it";
  EXPECT_EQ(find(audit, "/usr/lib/libcurand.so.10").trouble, "");
}

TEST_F(AuditTest, TheTreesOwnGpuIsTold) {
  EXPECT_FALSE(look().gpu);
  const fs::path device = "sys/bus/pci/devices/000f:01:00.0";
  write(device / "vendor", "0x10de\n");
  write(device / "device", "0x2e12\n");
  write(device / "class", "0x030200\n");
  const Audit audit = look();
  ASSERT_TRUE(audit.gpu);
  EXPECT_EQ(audit.gpu->capability, (ComputeCapability{12, 1}));
  EXPECT_EQ(audit.gpu->machine, "aarch64");
}

TEST_F(AuditTest, WheelsAreReadAsTheyAre) {
  const std::string code = library({sass(120), sass(90)}), plain = library({});
  write_zip(root / "flash.whl", {{"flash_attn_2_cuda.cpython-312.so", code},
                                 {"flash_attn/notes.txt", "text"},
                                 {"flash_attn/plain.so", plain},
                                 {"flash_attn-2.8.3.dist-info/METADATA", "Name: flash-attn\nVersion: 2.8.3\n"}});
  AuditOptions options;
  options.paths = {"/flash.whl"};
  std::vector<double> done;
  options.progress = [&](double share, const std::string&) { done.push_back(share); };
  const Audit audit = look(options);
  EXPECT_EQ(done.size(), 3U) << "the wheel, and its two libraries";
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_GT(done.back(), 0);
  EXPECT_LT(done.back(), 1);
  const Library& library = find(audit, "/flash.whl!flash_attn_2_cuda.cpython-312.so");
  EXPECT_EQ(library.component + " " + library.version, "flash-attention 2.8.3");
  EXPECT_EQ(library.code.groups.size(), 2U);
}

TEST_F(AuditTest, DamagedWheelsAreNotes) {
  write("cut.whl", "PK\3\4 no archive");
  const std::string code = library({sass(120)});
  write_zip(root / "bad.whl", {{"libcudnn.so.9", code}, {"libnccl.so.2", code}});
  std::string bytes = read_file(root / "bad.whl");
  bytes[80] = static_cast<char>(~bytes[80]);  // within the first member's compressed bytes
  write("bad.whl", bytes);
  AuditOptions options;
  options.paths = {"/cut.whl", "/bad.whl"};
  const Audit audit = look(options);
  ASSERT_EQ(audit.notes.size(), 2U);
  EXPECT_NE(audit.notes[0].find("no zip archive"), std::string::npos) << audit.notes[0];
  EXPECT_NE(audit.notes[1].find("bad.whl!libcudnn.so.9"), std::string::npos) << audit.notes[1];
  EXPECT_EQ(audit.libraries.size(), 1U) << "the other member is whole";
}

TEST_F(AuditTest, NothingIsLeftInTheTemporaryFolder) {
  const fs::path scratch = root / "scratch";
  fs::create_directories(scratch);
  const char* before = std::getenv("TMPDIR");
  const std::string restored = before ? before : "";
  setenv("TMPDIR", scratch.c_str(), 1);
  const std::string code = library({sass(120)});
  write_zip(root / "one.whl", {{"libnccl.so.2", code}});
  AuditOptions options;
  options.paths = {"/one.whl"};
  EXPECT_EQ(look(options).libraries.size(), 1U);
  EXPECT_TRUE(fs::is_empty(scratch));
  setenv("TMPDIR", (root / "nowhere").c_str(), 1);
  const Audit without = look(options);
  EXPECT_TRUE(without.libraries.empty());
  ASSERT_EQ(without.notes.size(), 1U);
  EXPECT_NE(without.notes[0].find("nowhere: no folder for temporary files (TMPDIR)"), std::string::npos)
      << without.notes[0];
  if (before) setenv("TMPDIR", restored.c_str(), 1);
  else unsetenv("TMPDIR");
}

TEST_F(AuditTest, AsJsonNothingIsLost) {
  write("usr/lib/libcudnn.so.9.13.0", library({sass(121), ptx(121), sass(120, 'f')}, "libcudnn.so.9"));
  write("usr/lib/libcufft.so.12", "no library, but long enough\n");
  write("usr/lib/libnccl.so.2.28.9", library({sass(90)}).substr(0, 30));
  const Audit first = look();
  const NamedGpu target = parse_gpu("gb10");
  const auto document = audit_json(first, target);
  const Audit second = read_audit_json(document.dump(), "x.json");
  EXPECT_EQ(audit_json(second, target), document);
  EXPECT_EQ(document["libraries"].size(), 2U);
  EXPECT_EQ(document["libraries"][1]["verdict"]["standing"], "native");
  EXPECT_TRUE(audit_json(first, std::nullopt)["gpu"].is_null());
  for (const char* text : {"", "{", "[]", "{\"libraries\": 3}"})
    EXPECT_THROW(read_audit_json(text, "x.json"), Error) << text;
  auto negative = document;
  negative["libraries"][1]["containers"][0]["count"] = -1;
  EXPECT_THROW(read_audit_json(negative.dump(), "x.json"), Error);
  std::string wrong = document.dump();
  wrong.replace(wrong.find("sm_120f"), 7, "sm_120q");
  EXPECT_THROW(read_audit_json(wrong, "x.json"), Error);
}

TEST_F(AuditTest, TwoStacksAreCompared) {
  write("a/libcudnn.so.9.13.0", library({sass(90), sass(100)}));
  write("b/libcudnn.so.9.14.0", library({sass(90), sass(121)}));
  write("a/libnccl.so.2.28.9", library({sass(120)}));
  write("b/libnccl.so.2.28.9", library({sass(120)}));
  write("b/libcurand.so.10", library({sass(120)}, {}, 62));
  AuditOptions a, b;
  a.paths = {"/a"};
  b.paths = {"/b"};
  const Audit first = look(a), second = look(b);
  const auto list = compare(first, second);
  ASSERT_EQ(list.size(), 2U) << "NCCL is the same";
  EXPECT_EQ(list[0].component, "cuDNN");
  EXPECT_EQ(list[0].a->version + " " + list[0].b->version, "9.13.0 9.14.0");
  EXPECT_EQ(list[0].gained, std::vector<std::string>{"sm_121"});
  EXPECT_EQ(list[0].lost, std::vector<std::string>{"sm_100"});
  EXPECT_EQ(list[1].component, "cuRAND");
  EXPECT_EQ(list[1].a, nullptr);
  EXPECT_TRUE(compare(first, first).empty());
}

}  // namespace
}  // namespace sparkpilot::stack
