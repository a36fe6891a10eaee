// The program's answers to its command line: help, errors, suggestions.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli_fixture.h"

namespace sparkpilot {
namespace usage_test {

TEST_F(Cli, EveryCommandHelpsWithAnExample) {
  for (const char* command : kCommands) {
    const ProgramResult result = run_program(std::string(command) + " --help");
    EXPECT_EQ(result.code, 0) << command;
    EXPECT_NE(result.out.find("Example"), std::string::npos) << command;
    EXPECT_NE(result.out.find(std::string("sparkpilot ") + command), std::string::npos) << command;
    EXPECT_EQ(result.err, "") << command;
  }
}

TEST_F(Cli, WrongUsageIsOneLineAndCodeTwo) {
  expect_usage_error("zoo", "sparkpilot zoo: one of its commands is missing: list or build");
  expect_usage_error("fly", "no command is named \"fly\"");
  expect_usage_error("version --loud", "--loud");
  expect_usage_error("bench", "sparkpilot bench: FILE is missing: ONNX models");
  expect_usage_error("model check", "sparkpilot model check: FILE is missing: ONNX model");
  expect_usage_error("model convert x.onnx", "sparkpilot model convert: --out FILE is missing: the file to write");
  expect_usage_error("drive", "sparkpilot drive: ROUTE is missing: folder");
  expect_usage_error("run " + policy() + " --runs many", "--runs: expected a whole number, got \"many\"");
  expect_usage_error("run " + policy() + " --runs 2x", "--runs: expected a whole number, got \"2x\"");
  expect_usage_error("run " + policy() + " --seed -1", "--seed: expected a whole number of 0 or more, got \"-1\"");
  expect_usage_error("route synth --out x --routes 99999999999",
                     "--routes: expected a whole number that is not as large");
  expect_usage_error("drive x --focal-length far", "--focal-length: expected a number, got \"far\"");
  expect_usage_error("run " + policy() + " --runs 0", "--runs");
  // Flags that have no effect, or contradict each other.
  expect_usage_error("run " + policy() + " --dump-graph x --trace x", "--trace and --dump-graph name the same file");
  expect_usage_error("zoo build --all driving_policy --out x", "driving_policy: --all builds it, too");
  expect_usage_error("ops list Conv --json --markdown", "--markdown and --json: expected one of them");
  expect_usage_error("doctor --json --markdown", "--json and --markdown: expected one of them");
  expect_usage_error("doctor --json --report", "--json and --report: expected one of them");
  expect_usage_error("stack audit --from x.json --path y", "have no effect with it");
  expect_usage_error("stack audit --diff x.json y.json --from z.json", "have no effect with it");
  expect_usage_error("monitor --once --interval 10ms", "--interval");
  expect_usage_error("model calibrate " + policy() + " --samples x.npy --out y.json --percentile 99",
                     "--percentile is for --method percentile, which is not given");
  expect_usage_error("model quantize --int8 " + policy() + " y.onnx --calibrate x.npy --method min-max --percentile 99",
                     "--percentile is for --method percentile, which is not given");
  expect_usage_error("model check " + policy() + " --quick --tolerance 1e-3", "--tolerance is for the comparison");
  expect_usage_error("bench " + policy() + " --peer-timeout 5", "--peer-timeout is for --peer, which is not given");
  expect_usage_error("drive x --out y --from-log --precision fp8",
                     "--precision is for models, and --from-log runs none");
  expect_usage_error("drive x --out y --no-overlay --overlay-width 500", "--overlay-width is for the overlay");
  expect_usage_error("model quantize --fp8 " + policy() + " y.onnx --budget much",
                     "expected a size such as 500000, 40M");
  expect_usage_error("route dump carState x --fields vEgo,vEgo", "--fields: vEgo is given twice");
  expect_usage_error("run " + policy() + " --threads -1", "--threads");
  expect_usage_error("run " + policy() + " --threads few", "--threads");
  expect_usage_error("run " + policy() + " --passes no-such", "such");
  expect_usage_error("run " + policy() + " --passes fast", "fast");
  expect_usage_error("run " + policy() + " --device cuda", "cuda");
  expect_usage_error("run " + policy() + " --precision fp3", "or fp4, got \"fp3\" (did you mean fp32?)");
  expect_usage_error("drive x --sampling neerest",
                     "--sampling: expected bilinear or nearest, got \"neerest\" (did you mean nearest?)");
  expect_usage_error("route synth --out x --light nihgt",
                     "overcast, dusk or night, got \"nihgt\" (did you mean night?)");
  expect_usage_error("route synth --out x --no-video --qcamera-only", "--no-video and --qcamera-only");
  expect_usage_error("run " + policy() + " --output nothing", "nothing");
  expect_usage_error("run " + policy() + " --dim batch=4", "batch");
  expect_usage_error("run " + policy() + " --dim batch", "NAME=VALUE");
  expect_usage_error("run " + policy() + " --dim batch=-1", "--dim batch: expected at least 0, got -1");
  expect_usage_error("run " + policy() + " --dim batch=2 --dim batch=3", "\"batch\" is given twice");
  expect_usage_error("run " + policy() + " --shape features_buffer", "expected INPUT=SIZES such as x=1x512");
  expect_usage_error("run " + policy() + " --shape =1x2", "expected INPUT=SIZES");
  for (const char* sizes : {"", "x", "1x", "1xx2", "-1x2", "1,2", "?x2"}) {
    expect_usage_error("run " + policy() + " --shape y=" + sizes, "--shape y: expected sizes such as 1x512, got");
  }
  expect_usage_error("run " + policy() + " --shape y=99999999999999x99999999999999", "--shape y: ");
  expect_usage_error("run " + policy() + " --shape y=1x1x1x1x1x1x1x1x1", "--shape y: ");
  expect_usage_error("run " + policy() + " --shape y=1 --shape y=1", "\"y\" is given twice");
  expect_usage_error("run " + policy() + " --shape y=1", "has no input \"y\"");
  expect_usage_error("run " + policy() + " --shape traffic_convention=1x3", "is [1, 2], the shape given for it [1,3]");
  expect_usage_error("ops list NoSuchOp", "NoSuchOp");
  expect_usage_error("zoo build", "--all");
  expect_usage_error("zoo build driving_dream", "driving_dream");
}

TEST_F(Cli, MistypedNamesAreGuessed) {
  expect_usage_error("bensh x.onnx", "sparkpilot: no command is named \"bensh\" (did you mean bench?)");
  expect_usage_error("model chek x.onnx", "sparkpilot model: no command is named \"chek\" (did you mean check?)");
  expect_usage_error("bench x.onnx --threds 2",
                     "sparkpilot bench: no option is named --threds (did you mean --threads?)");
  expect_usage_error("bench x.onnx --threds=2", "(did you mean --threads?)");
  expect_usage_error("model convert x.onnx --opsett 2", "(did you mean --opset?)");
  expect_usage_error("run -- " + policy() + " extra", "\"extra\" was not expected");
  expect_usage_error("bensh x.onnx --json", "sparkpilot: no command is named \"bensh\" (did you mean bench?)");
  expect_usage_error("--fast bensh", "sparkpilot: no option is named --fast");
  expect_usage_error("zoo --json",
                     "sparkpilot zoo: no option is named --json; one of its commands is missing: list or build");
  expect_usage_error("help bensh", "sparkpilot: no command is named \"bensh\" (did you mean bench?)");
  expect_usage_error("help model chek", "(did you mean check?)");
  expect_usage_error("zoo list extra", "sparkpilot zoo list: \"extra\" was not expected");
  expect_usage_error("zoo build driving_visoin", "(did you mean driving_vision?)");
  expect_usage_error("ops check conv", "(did you mean Conv?)");
  expect_usage_error("ops bench Sofmax", "(did you mean Softmax?)");
  expect_usage_error("run " + policy() + " --passes cse", "no-PASS such as no-cse, got \"cse\"");
  EXPECT_EQ(run_program("fly").err.find("did you mean"), std::string::npos);
}

TEST_F(Cli, HelpAndVersionInTheirUsualForms) {
  const std::string help = run_program("--help").out;
  const ProgramResult alone = run_program("");
  EXPECT_EQ(alone.code, 2);
  EXPECT_EQ(alone.out, "");
  EXPECT_EQ(alone.err, help);
  EXPECT_EQ(run_program("help").out, help);
  EXPECT_EQ(run_program("help model check").out, run_program("model check --help").out);
  const std::string version = run_program("version").out, first = version.substr(0, version.find('\n') + 1);
  EXPECT_EQ(run_program("--version").out, first);
  EXPECT_EQ(run_program("-V").out, first);
}

TEST_F(Cli, EmptyValuesAreRefused) {
  for (const char* flag : {"--output-dir", "--dump-graph", "--dump-values", "--trace", "--passes", "--output", "--dim",
                           "--shape", "--input", "--precision"}) {
    expect_usage_error("run " + policy() + " " + flag + " ''", std::string(flag) + ": an empty value");
  }
  expect_usage_error("run " + policy() + " --input desire_pulse=", "--input desire_pulse: an empty value");
  expect_usage_error("run ''", "file: an empty value");
  expect_usage_error("bench ''", "files: an empty value");
  expect_usage_error("model convert " + policy() + " --out ''", "--out: an empty value");
  expect_usage_error("zoo build tiny_driving_policy --out ''", "--out: an empty value");
}

TEST_F(Cli, FarMoreThreadsThanProcessorsAreRefused) {
  const int processors = parsed("version")["processors"];
  for (const std::string& command : {"run " + policy(), "bench " + policy(), std::string("ops bench Softmax")}) {
    expect_usage_error(command + " --threads 100000", "100000");
    EXPECT_EQ(run_program(command + " --threads -1").code, 2);
  }
  const ProgramResult result = run_program("run --threads " + std::to_string(4 * processors + 1) + " " + policy());
  EXPECT_NE(result.err.find("times the"), std::string::npos) << result.err;
}

TEST_F(Cli, PassesAreListedWithoutAModel) {
  const json passes = parsed("run --passes list");
  EXPECT_EQ(keys(passes["passes"][0]), (Keys{"name", "doc", "optional"}));
  EXPECT_EQ(parsed("bench --passes list"), passes);
  EXPECT_EQ(parsed("model check --passes list"), passes);
}

TEST_F(Cli, TablesHaveNoTrailingBlanks) {
  for (const std::string& command : {std::string("ops list"), std::string("zoo list"), std::string("ops check Acos"),
                                     std::string("run --passes list"), "run " + policy()}) {
    EXPECT_EQ(run_program(command).out.find(" \n"), std::string::npos) << command;
  }
}

TEST_F(Cli, OutputThatCannotBeWrittenIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  std::vector<std::string> all = {"help",
                                  "--version",
                                  "version",
                                  "env",
                                  "ops list",
                                  "ops list --json",
                                  "zoo list",
                                  "doctor --list",
                                  "run --passes list",
                                  "monitor --once",
                                  "model info " + policy(),
                                  "model info --json " + policy(),
                                  "bench --runs 1 " + policy()};
  for (const char* command : kCommands) all.push_back(std::string(command) + " --help");
  for (const std::string& arguments : all) {
    // The program inherits the output file that the shell opens.
    const ProgramResult result = run_program(arguments, R"(sh -c 'exec "$@" >/dev/full' sh)");
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.err.find(": cannot write the output: No space left on device\n"), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << arguments << "\n" << result.err;
  }
}

}  // namespace usage_test
}  // namespace sparkpilot
