// The program's output on a terminal: tables that fit it.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cli_fixture.h"
#include "model_bytes.h"

namespace sparkpilot {
namespace terminal_test {

class Terminal : public Cli {
 protected:
  void SetUp() override {
    if (std::system("script --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no script to make a terminal";
  }

  // The lines that the program prints on a terminal of this width.
  std::vector<std::string> lines(const std::string& arguments, int columns) {
    forget_settings();
    write_text(folder / "run.sh",
               "stty cols " + std::to_string(columns) + "; '" SPARKPILOT_PROGRAM "' " + arguments + " 2>/dev/null");
    const std::string command =
        "TERM=dumb script -qec 'sh " + folder.file("run.sh") + "' /dev/null >" + folder.file("seen") + " </dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << arguments;
    std::istringstream seen(read_text(folder / "seen"));
    std::vector<std::string> out;
    for (std::string line; std::getline(seen, line);) {
      while (line.ends_with('\r')) line.pop_back();
      out.push_back(line);
    }
    return out;
  }

  // The number of characters: UTF-8 continuation bytes do not count.
  static int64_t letters(const std::string& line) {
    return std::count_if(line.begin(), line.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  }

  static std::string text(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
  }

  // Two convolution-like nodes with long paths that begin alike.
  std::string deep() {
    const std::string path = "/vision/backbone/stages.3/blocks.1/mixer/";
    write_text(
        folder / "deep.onnx",
        model({node("Exp", path + "pointwise/Exp", {"x"}, "t"), node("Sin", path + "pointwise/Sin", {"t"}, "y")}, {}));
    return "'" + folder.file("deep.onnx") + "'";
  }
};

TEST_F(Terminal, TablesAreNeverWiderThanIt) {
  for (const std::string& arguments :
       {"bench " + policy() + " --runs 1 --profile", "model info " + policy(), "model check " + policy() + " --quick",
        "run " + policy(), std::string("ops list"), std::string("zoo list"), std::string("run --passes list")}) {
    for (const int columns : {200, 100, 80, 60, 45}) {
      const auto seen = lines(arguments, columns);
      EXPECT_GE(seen.size(), 2U) << arguments;
      for (const std::string& line : seen) EXPECT_LE(letters(line), columns) << arguments << "\n" << text(seen);
    }
  }
}

TEST_F(Terminal, ANarrowTableKeepsWhatANameEndsWith) {
  const std::string arguments = "bench " + deep() + " --runs 1 --profile --passes none";
  const std::string narrow = text(lines(arguments, 80)), wide = text(lines(arguments, 300));
  EXPECT_NE(wide.find("/vision/backbone/stages.3/blocks.1/mixer/pointwise/Exp"), std::string::npos) << wide;
  EXPECT_EQ(narrow.find("/vision/backbone"), std::string::npos) << narrow;
  for (const char* end : {"/pointwise/Exp", "/pointwise/Sin", ".../deep.onnx"})
    EXPECT_NE(narrow.find(end), std::string::npos) << end << "\n" << narrow;
}

TEST_F(Terminal, APathWithSpacesKeepsItsEnd) {
  const std::string name = "a folder whose name goes on and on/and one more within it";
  std::filesystem::create_directories(folder / name);
  std::filesystem::copy_file(models->file("tiny_driving_policy.onnx"), folder / (name + "/policy.onnx"));
  const std::string seen = text(lines("bench '" + folder.file(name) + "/policy.onnx' --runs 1", 60));
  EXPECT_NE(seen.find("policy.onnx "), std::string::npos) << seen;
}

TEST_F(Terminal, NumbersThatDoNotFitStandBelow) {
  const auto seen = lines("bench " + policy() + " --runs 1", 60);
  const std::string all = text(seen);
  for (const char* heading : {"threads", "mean ms", "p50", "p90", "p99", "min", "first", "frames/s", "load ms",
                              "memory", "weights", "roofline"})
    EXPECT_NE(all.find(heading), std::string::npos) << heading << "\n" << all;
  EXPECT_GE(std::count_if(seen.begin(), seen.end(), [](const std::string& line) { return line.starts_with("model "); }),
            2)
      << all;
}

TEST_F(Terminal, WhereThereIsNoneATableIsWhole) {
  const std::string out = run_program("bench " + deep() + " --runs 1 --profile --passes none", "env COLUMNS=40").out;
  EXPECT_NE(out.find("/vision/backbone/stages.3/blocks.1/mixer/pointwise/Exp"), std::string::npos) << out;
  EXPECT_EQ(out.find("..."), std::string::npos) << out;
}

}  // namespace terminal_test
}  // namespace sparkpilot
