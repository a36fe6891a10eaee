// sparkpilot compare as users run it.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "cli_fixture.h"
#include "compare/test_faults.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {
namespace compare_cli_test {

// A copy of the policy with one weight tensor 5 % larger; returns the node.
std::string plant(const std::string& from, const std::string& to) {
  Graph graph = load_onnx(from);
  const std::vector<NodeId> nodes = compare::products(graph);
  const NodeId at = nodes[nodes.size() / 2];
  compare::scale_weights(graph, at, 1.05);
  save_onnx(graph, to);
  return graph.label(at);
}

class CompareCli : public Cli {
 protected:
  CompareCli() { node = plant(models->file("tiny_driving_policy.onnx"), folder.file("scaled.onnx")); }
  std::string both() const { return "compare " + policy() + " '" + folder.file("scaled.onnx") + "' --threads 1"; }
  std::string node;
};

TEST_F(CompareCli, ReportsResultsAndSpeed) {
  const json document = parsed("compare " + policy() + " --precision fp32,fp16 --threads 1 --rounds 5");
  EXPECT_EQ(keys(document), (Keys{"samples", "notes", "variants", "beyond_limits"}));
  ASSERT_EQ(document["variants"].size(), 2u);
  EXPECT_EQ(document["variants"][0]["name"], "fp32");
  const json& fp16 = document["variants"][1];
  EXPECT_EQ(keys(fp16),
            (Keys{"name", "file", "precision", "threads", "load_ms", "peak_memory_bytes", "arena_bytes", "runs",
                  "mean_ms", "p50_ms", "p99_ms", "min_ms", "time_ratio", "outputs", "not_compared", "layers"}));
  EXPECT_EQ(keys(fp16["time_ratio"]), (Keys{"median", "low", "high", "rounds"}));
  EXPECT_EQ(keys(fp16["outputs"][0]), (Keys{"name", "of", "elements", "not_finite", "not_finite_on_both", "max_abs",
                                            "relative_l2", "cosine", "worst_sample_relative_l2"}));
  const ProgramResult text = run_program("compare " + policy() + " --precision fp32,fp16 --threads 1,2 --rounds 5");
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word : {"fp32 1 thread", "fp16 2 threads", "relative L2", "90 %", "against fp32 1 thread, 1 sample"})
    EXPECT_NE(text.out.find(word), std::string::npos) << word;
}

TEST_F(CompareCli, APageWithAPlotOfWhereItBegins) {
  const std::string page = folder.file("page");
  const ProgramResult result = run_program(
      "compare " + policy() + " --precision fp32,fp16 --threads 1 --rounds 5 --max-abs 1e-9 --out '" + page + "'");
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_NE(result.out.find("page: " + page + "/compare.html"), std::string::npos) << result.out;
  const std::string html = read_text(page + "/compare.html");
  for (const char* word : {"Comparison of models", "against fp32, 1 sample", "Difference of the values inside",
                           "log10 of relative L2", "allowed 1e-09", "90 %"})
    EXPECT_NE(html.find(word), std::string::npos) << word;
}

TEST_F(CompareCli, LimitsMakeItACheck) {
  const std::string quick = both() + " --no-time --no-layers --quiet";
  EXPECT_EQ(run_program(quick).code, 0);
  EXPECT_EQ(run_program(quick + " --max-relative-l2 0.5 --max-abs 100").code, 0);
  const ProgramResult beyond = run_program(quick + " --max-relative-l2 1e-6");
  EXPECT_EQ(beyond.code, 4);
  EXPECT_NE(beyond.err.find("scaled.onnx, outputs: relative L2 "), std::string::npos) << beyond.err;
  EXPECT_NE(beyond.err.find(", allowed 1e-06"), std::string::npos) << beyond.err;
  const ProgramResult document = run_program(quick + " --max-abs 1e-9 --json");
  EXPECT_EQ(document.code, 4);
  EXPECT_EQ(json::parse(document.out)["beyond_limits"].size(), 1u);
  // Zero is a limit, too.
  const std::string none = " --threads 1 --no-time --max-abs 0 --max-relative-l2 0";
  EXPECT_EQ(run_program("compare " + policy() + " " + policy() + none).code, 0);
  EXPECT_EQ(run_program(quick + " --max-abs 0").code, 4);
  EXPECT_EQ(run_program(quick + " --max-relative-l2 0").code, 4);
}

// y = relu(x) of that many rows, or of an open number.
void save_rows(const std::string& file, std::optional<int64_t> rows) {
  Graph graph;
  Builder b(graph);
  const Dim height = rows ? Dim{.size = *rows} : Dim{.symbol = "rows"};
  graph.add_output(b.add("Relu", {graph.add_input("x", DType::f32, std::vector<Dim>{height, {.size = 3}})}), "y");
  save_onnx(graph, file);
}

// A size of a dimension that one model leaves open, of a model with the size and of one without.
TEST_F(CompareCli, ADimensionOfOneModelAlone) {
  const std::string open = folder.file("open.onnx"), fixed = folder.file("fixed.onnx");
  save_rows(open, std::nullopt);
  save_rows(fixed, 4);
  for (const auto& [first, second] : {std::pair{open, fixed}, {fixed, open}}) {
    const std::string words = "compare '" + first + "' '" + second + "' --no-time --threads 1 --max-abs 0 --dim ";
    const ProgramResult result = run_program(words + "rows=4");
    EXPECT_EQ(result.code, 0) << result.err;
    const ProgramResult bisect =
        run_program("compare '" + first + "' '" + second + "' --bisect --threads 1 --dim rows=4");
    EXPECT_EQ(bisect.code, 0) << bisect.err;
    expect_usage_error(words + "batch=4", "no input has an open dimension named \"batch\"");
  }
}

TEST_F(CompareCli, BisectNamesTheNode) {
  const ProgramResult text = run_program(both() + " --bisect");
  EXPECT_EQ(text.code, 4);
  EXPECT_NE(text.out.find("first difference between tiny_driving_policy.onnx and scaled.onnx: "), std::string::npos);
  EXPECT_NE(text.out.find(node), std::string::npos) << node << "\n" << text.out;
  const ProgramResult document = run_program(both() + " --bisect --json");
  EXPECT_EQ(document.code, 4);
  const json found = json::parse(document.out);
  EXPECT_EQ(keys(found), (Keys{"max_relative_l2", "runs", "values", "sample", "fault"}));
  EXPECT_EQ(keys(found["fault"]), (Keys{"value", "nodes", "before", "elements", "not_finite", "not_finite_on_both",
                                        "max_abs", "relative_l2", "cosine"}));
  const ProgramResult same = run_program("compare " + policy() + " " + policy() + " --threads 1 --bisect");
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_NE(same.out.find("no output differs"), std::string::npos);
}

// Any precision can be computed anywhere; without the flag the processor decides.
TEST_F(CompareCli, EmulatesWhatTheProcessorLacks) {
  const json document = parsed("compare " + policy() + " --precision fp32,bf16 --emulate --threads 1");
  const json& bf16 = document["variants"][1];
  EXPECT_FALSE(bf16.contains("mean_ms"));
  const double error = bf16["outputs"][0]["relative_l2"];
  EXPECT_GT(error, 1e-5);
  EXPECT_LT(error, 0.1);
  const ProgramResult run = run_program("run " + policy() + " --precision bf16 --emulate --threads 1 --quiet");
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST_F(CompareCli, WrongUsageIsOneLine) {
  expect_usage_error("compare " + policy(), "give a second model, several precisions");
  expect_usage_error("compare " + policy() + " --precision fp32,fp33", "(did you mean fp32?)");
  expect_usage_error("compare " + policy() + " --precision fp32,,fp16", "an empty item");
  expect_usage_error("compare " + policy() + " --precision fp32,fp32", "fp32 is given twice");
  expect_usage_error("compare " + policy() + " --threads 1,many", "--threads: expected a whole number");
  expect_usage_error("compare " + policy() + " --threads 1,100000", "100000");
  expect_usage_error(both() + " --rounds 0", "--rounds: expected at least 1, got 0");
  expect_usage_error(both() + " --max-abs -1", "--max-abs: expected 0 or more, got -1");
  expect_usage_error(both() + " --input nothing.npy", "nothing.npy");
  expect_usage_error("compare " + policy() + " --precision fp32,fp16,model --bisect", "--bisect compares two");
  expect_usage_error("compare " + policy() + " /dev/null", "/dev/null");
  expect_usage_error("compare " + policy() + " nothing.onnx", "nothing.onnx: no such file or folder");
  expect_usage_error(both() + " --max-plan-error 1", "--max-plan-error is for drives");
  expect_usage_error(both() + " --bisect --max-abs 1", "--max-abs has no effect");
  expect_usage_error("compare " + policy() + " '" + models->file("tiny_driving_vision.onnx") + "'",
                     "is not an input of the first model");
}

// A flag, and where it has an effect: m model files, b --bisect, d finished drives, r --route.
struct FlagCase {
  std::string flag, value, where;
  std::string with = {};  // what it needs besides
};

// Values are the defaults where there are some: what counts is whether the flag is given.
const FlagCase kFlags[] = {
    {"--config", "/dev/null", "mbdr"},
    {"--json", "", "mbdr"},
    {"--quiet", "", "mbdr"},
    {"--verbose", "", "mbdr"},
    {"--out", "out", "mdr"},
    {"--route", "/nowhere", "mbr"},
    {"--frames", "8", "mb", "--route /nowhere"},
    {"--models", "/nowhere", "r"},
    {"--limit", "0", "r"},
    {"--qcamera", "", "r"},
    {"--no-wide", "", "r"},
    {"--data", "/nowhere", "mbr", "--route /nowhere"},
    {"--video", "", "dr", "--out out"},
    {"--max-plan-error", "0", "dr"},
    {"--fields", "", "dr"},
    {"--tolerances", "tolerances.json", "dr", "--fields"},
    {"--tolerance-scale", "1", "dr", "--fields"},
    {"--adapter", "adapter", "mb"},
    {"--precision", "fp32", "mbr"},
    {"--threads", "1", "mbr"},
    {"--device", "auto", "mbr"},
    {"--memory-reserve", "auto", "mbr"},
    {"--tune", "auto", "mbr"},
    {"--passes", "all", "mbr"},
    {"--emulate", "", "mbr"},
    {"--bisect", "", "b"},
    {"--max-relative-l2", "0", "mb"},
    {"--max-abs", "0", "m"},
    {"--rounds", "12", "m"},
    {"--no-time", "", "m"},
    {"--no-layers", "", "m"},
    {"--input", "x.npy", "mb"},
    {"--calibrate", "x.npy", "mb", "--precision int8"},
    {"--calibration", "/none.json", "mbr", "--precision fp8"},
    {"--fp4-activations", "", "mbr", "--precision fp4 --calibration /none.json"},
    {"--samples", "0", "mb"},
    {"--seed", "1", "mb"},
    {"--dim", "n=1", "mb"},
    {"--shape", "x=1", "mb"},
    {"--output", "y", "mb"},
    {"--peer", "onnxruntime", "mb"},
    {"--peer-timeout", "0", "mb", "--peer onnxruntime"},
};

std::vector<std::string> flags_of_help(const std::string& command) {
  std::vector<std::string> flags;
  std::istringstream lines(run_program(command + " --help").out);
  for (std::string line; std::getline(lines, line);) {
    const std::string word = line.starts_with("  -") ? line.substr(2, line.find_first_of(" =", 2) - 2) : "";
    if (const size_t at = word.find("--"); at != std::string::npos) flags.push_back(word.substr(at));
  }
  return flags;
}

// No flag is ignored: where it has no effect it is refused by name, elsewhere what comes next is. A flag that this
// table lacks has to be placed in it.
TEST_F(CompareCli, FlagsWithoutEffectAreRefused) {
  std::set<std::string> placed{"--help"};
  for (const FlagCase& row : kFlags) placed.insert(row.flag);
  const std::vector<std::string> known = flags_of_help("compare");
  EXPECT_EQ(std::set<std::string>(known.begin(), known.end()), placed);

  const std::string empty = folder.file("empty");
  std::filesystem::create_directory(empty);
  const std::pair<char, std::string> modes[] = {{'m', "/dev/null /dev/null"},
                                                {'b', "/dev/null /dev/null --bisect"},
                                                {'d', "'" + empty + "' '" + empty + "'"},
                                                {'r', "--route /nowhere"}};
  for (const FlagCase& row : kFlags) {
    for (const auto& [mode, input] : modes) {
      if ((row.flag == "--route" && mode != 'r') || (row.flag == "--bisect" && mode == 'm')) continue;  // is the mode
      const bool itself = input.find(row.flag) != std::string::npos, taken = row.where.find(mode) != std::string::npos;
      std::string words = "compare " + input;
      if (!itself) words += " " + row.flag + " " + row.value;
      if (taken && input != row.with) words += " " + row.with;
      ProgramResult result = run_program(words);
      EXPECT_EQ(result.code, 2) << words;
      EXPECT_EQ(result.out, "") << words;
      for (const char* told : {"device auto: ", "precision fp8: ", "precision fp4: "}) {  // the first with --verbose
        if (result.err.starts_with(told)) result.err.erase(0, result.err.find('\n') + 1);
      }
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << words << "\n" << result.err;
      const bool refused = result.err.find(" " + row.flag + " is for ") != std::string::npos ||
                           result.err.find(" " + row.flag + " has no effect with ") != std::string::npos;
      EXPECT_EQ(refused, !taken) << words << "\n" << result.err;
    }
  }
}

TEST_F(CompareCli, FlagsThatOthersMakeIdleAreRefused) {
  const std::string drives = "compare '" + folder.path().string() + "' '" + folder.path().string() + "' ";
  for (const FlagCase& row : kFlags) {
    if (row.with.empty() || row.where[0] != 'd') continue;
    expect_usage_error(drives + row.flag + " " + row.value,
                       row.flag + " is for " + row.with.substr(0, row.with.find(' ')) + ", which is not given");
  }
  expect_usage_error(both() + " --peer-timeout 3", "--peer-timeout is for --peer, which is not given");
  expect_usage_error(both() + " --calibrate x.npy", "--calibrate is for --precision int8, which is not given");
  expect_usage_error(both() + " --rounds 12 --no-time", "--rounds has no effect with --no-time");
  expect_usage_error(both() + " --rounds 12 --emulate", "--rounds has no effect with --emulate");
  expect_usage_error(both() + " --samples 0 --input x.npy", "--samples has no effect with --input");
  expect_usage_error(both() + " --input x.npy --route x", "--input has no effect with --route");
  expect_usage_error(both() + " --frames 3", "--frames is for --route, which is not given");
}

}  // namespace compare_cli_test
}  // namespace sparkpilot
