// The program's response to a hostile or broken file: one line that names file and node, exit code 2, no file written.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "model_bytes.h"
#include "program.h"

namespace sparkpilot {
namespace bad_input_test {
namespace fs = std::filesystem;

// Far more memory than any of these needs, far less than the absurd ones request. The address sanitizer reserves
// terabytes of addresses, so there the memory used counts instead.
#if defined(__SANITIZE_ADDRESS__)
const std::string kBounded = "ASAN_OPTIONS=hard_rss_limit_mb=4000";
#else
const std::string kBounded = "ulimit -v 8000000;";
#endif

const std::string kGood = model({node("Relu", "relu", {"x"}, "y")});

class BadInput : public ::testing::Test {
 protected:
  // Every command that reads a model refuses `file` with one line that contains `words`.
  void expect_refused(const std::string& file, const std::vector<std::string>& words) {
    const std::string out = folder.file("out");
    const std::string commands[] = {
        fmt::format("run '{0}' --output-dir '{1}' --dump-graph '{1}.dot'", file, out),
        fmt::format("bench '{}' --runs 1", file),
        fmt::format("model check '{}'", file),
        fmt::format("model convert '{}' --out '{}.onnx'", file, out),
    };
    for (const std::string& command : commands) {
      const ProgramResult result = run_program(command, kBounded);
      SCOPED_TRACE(command);
      EXPECT_EQ(result.code, 2) << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      EXPECT_NE(result.err.find(fs::path(file).filename().string()), std::string::npos) << result.err;
      for (const std::string& word : words) EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
      EXPECT_FALSE(fs::exists(out));
      EXPECT_FALSE(fs::exists(out + ".dot"));
      EXPECT_FALSE(fs::exists(out + ".onnx"));
    }
  }
  void expect_refused_bytes(const std::string& bytes, const std::vector<std::string>& words = {}) {
    const std::string file = folder.file("bad.onnx");
    write_text(file, bytes);
    expect_refused(file, words);
  }
  TempFolder folder;
};

TEST_F(BadInput, AGoodModelIsAccepted) {
  write_text(folder.file("good.onnx"), kGood);
  const ProgramResult result = run_program("run '" + folder.file("good.onnx") + "' --quiet");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(BadInput, NoModelAtAll) {
  expect_refused(folder.file("missing.onnx"), {"No such file"});
  fs::create_directory(folder.file("folder.onnx"));
  expect_refused(folder.file("folder.onnx"), {"folder"});
  expect_refused_bytes("");
  expect_refused_bytes("this is not a model\n", {"is a text file, not an ONNX model"});
  expect_refused_bytes("# sparkpilot\n\n" + std::string(5000, 'x'), {"is a text file, not an ONNX model"});
  expect_refused("/dev/null", {});
  std::string stream(600, '\x11');
  for (const size_t packet : {0, 188, 376}) stream[packet] = 'G';
  expect_refused_bytes(stream, {"is an MPEG transport stream (video), not an ONNX model"});
  expect_refused_bytes("\x80\x04\x95\x02N.", {"is a Python pickle, not an ONNX model"});
}

TEST_F(BadInput, GitLfsPointer) {
  const std::string head = "version https://git-lfs.github.com/spec/v1\n";
  expect_refused_bytes(head + "oid sha256:0123abcd\nsize 46147384\n",
                       {"Git LFS pointer (sha256 0123abcd, 46147384 bytes)", "git lfs pull"});
  expect_refused_bytes(head.substr(0, head.size() - 1), {"Git LFS pointer (sha256 ?, ? bytes)"});
}

TEST_F(BadInput, Truncated) {
  for (const size_t keep : {kGood.size() - 1, kGood.size() / 2, size_t{3}}) expect_refused_bytes(kGood.substr(0, keep));
}

TEST_F(BadInput, FlippedBitsNeverCrash) {
  const std::string file = folder.file("flipped.onnx");
  // Each case starts the program; src/onnx/hostile_test.cc gives all of them to the importer.
  for (size_t bit = 0; bit < kGood.size() * 8; bit += 29) {
    std::string bytes = kGood;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    write_text(file, bytes);
    const ProgramResult result = run_program("run --quiet '" + file + "'", kBounded);
    // A flipped bit may leave a valid model, with another name.
    EXPECT_TRUE(result.code == 0 || result.code == 2) << "bit " << bit << ": " << result.code << result.err;
    if (result.code == 2) {
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
}

TEST_F(BadInput, Cyclic) {
  expect_refused_bytes(model({node("Add", "first", {"x", "b"}, "a"), node("Relu", "second", {"a"}, "b"),
                              node("Relu", "last", {"b"}, "y")}),
                       {"cycle"});
}

TEST_F(BadInput, AbsurdSizes) {
  const Message relu = node("Relu", "relu", {"x"}, "y");
  expect_refused_bytes(model({relu}, {}, {int64_t{1} << 40}));
  expect_refused_bytes(model({relu}, {}, {int64_t{1} << 32, int64_t{1} << 32}));
  expect_refused_bytes(model({relu}, {}, {-7}));
  expect_refused_bytes(model({node("Add", "add", {"x", "w"}, "y")}, {initializer("w", {int64_t{1} << 40}, "abcd")}));
  expect_refused_bytes(model({node("Add", "add", {"x", "w"}, "y")}, {initializer("w", {-2}, "abcdabcd")}));
}

TEST_F(BadInput, MismatchedInitializer) {
  expect_refused_bytes(model({node("Add", "add", {"x", "w"}, "y")}, {initializer("w", {2}, "abcd")}), {"w"});
}

TEST_F(BadInput, NodesThatCannotBe) {
  expect_refused_bytes(model({node("Transmogrify", "odd", {"x"}, "y")}), {"Transmogrify", "odd"});
  expect_refused_bytes(model({node("Relu", "lonely", {"nothing"}, "y")}), {"nothing"});
  expect_refused_bytes(model({node("MatMul", "product", {"x", "w"}, "y")}, {initializer("w", {1, 1}, "abcd")}),
                       {"product"});
  expect_refused_bytes(model({node("Relu", "relu", {"x", "x", "x"}, "y")}), {"relu"});
}

TEST_F(BadInput, OpsetFromTheFuture) {
  expect_refused_bytes(model({node("Relu", "relu", {"x"}, "y")}, {}, {2}, 4000), {"4000"});
}

TEST_F(BadInput, ExternalDataOutsideTheFolder) {
  fs::create_directory(folder.file("model"));
  write_text(folder.file("secret"), "12345678");
  const std::string file = folder.file("model/bad.onnx");
  const auto refuse = [&](const std::string& location) {
    write_text(file, model({node("Add", "add", {"x", "w"}, "y")}, {external("w", location)}));
    SCOPED_TRACE(location);
    expect_refused(file, {});
  };
  refuse("../secret");
  refuse(folder.file("secret"));
  fs::create_symlink(folder.file("secret"), folder.file("model/link"));
  refuse("link");
  fs::create_hard_link(folder.file("secret"), folder.file("model/hard"));
  refuse("hard");
  fs::create_directory(folder.file("model/sub"));
  refuse("sub");
  refuse("missing");
  write_text(folder.file("model/short"), "1234");
  refuse("short");
}

}  // namespace bad_input_test
}  // namespace sparkpilot
