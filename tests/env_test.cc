// Settings from outside: precedence, warnings on stderr, their effect on commands, and lines for a shell.
#include <fmt/format.h>

#include "cli_fixture.h"

namespace sparkpilot {
namespace env_test {

namespace fs = std::filesystem;

class Env : public Cli {
 protected:
  // A prefix for run_program() that makes this text the configuration file.
  std::string with_config(const std::string& text) {
    fs::create_directories(folder.path() / "sparkpilot");
    write_text(config(), text);
    return "XDG_CONFIG_HOME='" + folder.path().string() + "' ";
  }
  std::string config() const { return folder.file("sparkpilot/config.toml"); }

  // A setting from `env --json`; expects `err` on stderr.
  static json setting(const std::string& name, const std::string& before, const std::string& err = "") {
    const ProgramResult result = run_program("env --json", before);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, err) << before;
    return json::parse(result.out, nullptr, false)["settings"][name];
  }
};

std::string bash(const std::string& script) {
  const TempFolder folder;
  write_text(folder.file("script"), script);
  const std::string command = "bash '" + (folder.file("script")) + "' >'" + (folder.file("out")) + "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_text(folder.file("out"));
  return read_text(folder.file("out"));
}

TEST_F(Env, SaysWhoSetWhat) {
  const json report = parsed("env");
  EXPECT_EQ(keys(report), (Keys{"settings", "config_file", "config_file_state", "device", "engine_device", "export"}));
  EXPECT_EQ(keys(report["settings"]), (Keys{"device", "memory-reserve", "precision", "threads", "tune", "cpu",
                                            "kernels", "models", "data", "peers", "python", "verbose", "color"}));
  EXPECT_EQ(report["config_file_state"], "not there");
  const json device = setting("device", "CUDA=1 OPENPILOT_DISABLE_DGX=1");
  EXPECT_EQ(device, json::parse(R"({"value": "cpu", "origin": "environment", "from": "OPENPILOT_DISABLE_DGX=1",
                                    "overruled": ["CUDA=1"]})"));
  const std::string table = run_program("env --threads 1", "OPENPILOT_DGX_ENABLED=0").out;
  EXPECT_NE(table.find("device          cpu      OPENPILOT_DGX_ENABLED=0"), std::string::npos) << table;
  EXPECT_NE(table.find("threads         1        --threads 1"), std::string::npos) << table;
  EXPECT_NE(table.find("models          not set  default"), std::string::npos) << table;
}

// The processor as the program sees it, and its results with fewer features.
TEST_F(Env, CpuLimitsWhatKernelsUse) {
  const std::string all = parsed("version")["isa"];
  EXPECT_EQ(parsed("version", "SPARKPILOT_CPU=auto")["isa"], all);
  const std::string least = parsed("version", "SPARKPILOT_CPU=baseline")["isa"];
  EXPECT_TRUE(least == "avx2" || least == "neon") << least;
  const std::string two = parsed("version", "SPARKPILOT_CPU=avx2")["isa"];
  if (all.find("avx2") != std::string::npos) {
    EXPECT_EQ(two, "avx2");
  } else {
    EXPECT_EQ(two, all);
    EXPECT_EQ(run_program("version", "SPARKPILOT_CPU=avx2").err,
              "warning: SPARKPILOT_CPU=avx2: this processor has no avx2; cpu is auto (default)\n");
  }
  EXPECT_EQ(run_program("ops check MatMul sparkpilot::Gemm", "SPARKPILOT_CPU=baseline").code, 0);
}

// On a processor without AVX2 the program says so; on the oldest with it, it runs.
TEST_F(Env, RefusesProcessorsWithoutTheLeastInstructions) {
#ifndef __x86_64__
  GTEST_SKIP() << "no x86-64 processor";
#endif
  if (std::system("qemu-x86_64 -version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no qemu-x86_64";
  const ProgramResult old = run_program("version", "qemu-x86_64 -cpu Nehalem");
  EXPECT_EQ(old.code, 3);
  EXPECT_NE(old.err.find("lacks AVX2"), std::string::npos) << old.err;
  const ProgramResult least = run_program("ops check MatMul", "qemu-x86_64 -cpu Haswell");
  EXPECT_EQ(least.code, 0) << least.err;
}

// Forcing and disabling single kernels, in every command that runs a model.
TEST_F(Env, KernelsAreAskedForAndSwitchedOff) {
  const ProgramResult built =
      run_program("zoo build tiny_driving_policy --quiet --out '" + folder.path().string() + "'");
  ASSERT_EQ(built.code, 0) << built.err;
  const auto kernels = [&](const std::string& before, const std::string& err = "") {
    const ProgramResult result = run_program("bench --quiet --runs 1 --threads 1 --profile --json --repeats 0 '" +
                                                 folder.file("tiny_driving_policy.onnx") + "'",
                                             before);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, err);
    std::set<std::string> names;
    const json report = json::parse(result.out, nullptr, false);
    for (const json& node : report["models"][0]["profile"]) {
      if (node["op"] == "sparkpilot::Gemm") names.insert(node["kernel"]);
    }
    return names;
  };
  EXPECT_TRUE(kernels("").contains("simd"));
  EXPECT_FALSE(kernels("SPARKPILOT_KERNELS=no-sparkpilot::Gemm/simd").contains("simd"));
  EXPECT_EQ(kernels("SPARKPILOT_KERNELS=reference"), std::set<std::string>{"reference"});
  EXPECT_EQ(
      kernels(
          "SPARKPILOT_KERNELS=no-sparkpilot::Gemm/sind",
          "warning: SPARKPILOT_KERNELS=no-sparkpilot::Gemm/sind: no kernel of sparkpilot::Gemm is named \"sind\" "
          "(did you mean simd?); there are amx, dot, onednn, packed, reference, simd; kernels is not set (default)\n"),
      kernels(""));
}

TEST_F(Env, WrongValuesAreOneLineOnStderr) {
  EXPECT_EQ(setting("device", "CUDA=yes",
                    "warning: CUDA: expected 1 (cuda) or 0 (cpu), got \"yes\"; device is auto (default)\n")["value"],
            "auto");
  EXPECT_EQ(setting("precision", "OPENPILOT_DGX_PRECISION=\"$(printf '\\033[31m\\377')\"",
                    "warning: OPENPILOT_DGX_PRECISION: expected auto, model, fp32, fp16, bf16, fp8 or fp4, got "
                    "\"\\x1b[31m\\xff\"; precision is auto (default)\n")["origin"],
            "default");
  // In every command; of several processes, only in the first.
  EXPECT_EQ(run_program("version", "DEBUG=express:*").err,
            "warning: DEBUG: expected a digit, got \"express:*\"; verbose is 0 (default)\n");
  EXPECT_EQ(run_program("version", "DEBUG=x OMPI_COMM_WORLD_RANK=1").err, "");
  // A wrong flag remains an error.
  expect_usage_error("env --device gpu", "sparkpilot env: --device: expected auto, cpu, cuda or cuda:N, got \"gpu\"");
}

TEST_F(Env, FileIsFoundAndOverruled) {
  const std::string before = with_config("# mine\nprecision = \"fp16\"\nthreads = 1\nmodels = \"~/models\"\n");
  EXPECT_EQ(setting("precision", before)["from"], config() + " line 2");
  EXPECT_EQ(setting("threads", before)["value"], "1");
  EXPECT_EQ(setting("models", before + "HOME=/home/me")["value"], "/home/me/models");
  EXPECT_EQ(setting("precision", before + "OPENPILOT_DGX_PRECISION=fp32")["overruled"][0], config() + " line 2");
  fs::create_directories(folder.path() / ".config");
  fs::rename(folder.path() / "sparkpilot", folder.path() / ".config/sparkpilot");
  for (const char* none : {"", "relative"}) {  // not usable, so the home folder's default is taken
    EXPECT_EQ(setting("threads", "HOME='" + folder.path().string() + "' XDG_CONFIG_HOME=" + none)["value"], "1");
  }
  EXPECT_EQ(setting("threads", "env -u HOME XDG_CONFIG_HOME=")["value"], "auto");
}

TEST_F(Env, FileGivenByAFlag) {
  write_text(folder.file("my.toml"), "threads = 1\n");
  const std::string flag = " --config '" + (folder.file("my.toml")) + "'";
  const std::string before = with_config("threads = 2\n");
  EXPECT_EQ(json::parse(run_program("env --json" + flag, before).out)["settings"]["threads"]["value"], "1");
  EXPECT_EQ(json::parse(run_program("env --json --config /dev/null", before).out)["settings"]["threads"]["origin"],
            "default");
  expect_usage_error("env --config /none/my.toml", "sparkpilot env: --config: /none/my.toml");
  write_text(folder.file("my.toml"), "threads 1\n");
  expect_usage_error("version" + flag, "my.toml line 1, column ");
  for (const char* no_key : {"[\n", "[ \nthreads]", "threads = 1\n[#]\n", "[[=]]"}) {
    write_text(folder.file("my.toml"), no_key);
    expect_usage_error("version" + flag, "my.toml");
  }
  // The parser would call itself for each part.
  std::string parts = "a";
  for (int i = 0; i < 200'000; ++i) parts += ".a";
  for (const std::string& text :
       {"threads = 1\n" + parts + " = 1\n", "[" + parts + "]\n", "x = {" + parts + " = 1}\n"}) {
    write_text(folder.file("my.toml"), text);
    expect_usage_error("version" + flag, ": more than 64 dots");
  }
  write_text(folder.file("my.toml"), "# \xc3\xbc\ndata = \"/\xc3\xbc\"\nthreads = 1\n");
  EXPECT_EQ(json::parse(run_program("env --json" + flag).out)["settings"]["data"]["value"], "/\xc3\xbc");
  for (const char* other : {"\n\xc3\xbc = 1\n", "\nthreads = \xc3\xbc", "\ndata = \"\"\"\\\n\xc3\xbc\"\"\"\n"}) {
    write_text(folder.file("my.toml"), other);
    expect_usage_error("version" + flag, "ASCII outside of comments and texts in quotes");
  }
}

TEST_F(Env, WhatIsWrongWithTheFileIsSaidOnce) {
  const std::string where = "warning: " + config();
  std::string before = with_config("colour = \"never\"\n[engine]\ndevice = \"cpu\"\n");
  EXPECT_EQ(run_program("version", before).err, where +
                                                    " line 1: no setting is named \"colour\" (did you mean color?)\n" +
                                                    where + " line 2: no setting is named \"engine\"\n");
  before = with_config("threads = 1\nprecision = [\"fp16\"]\ndevice = \"gpu\"\n");
  EXPECT_EQ(
      setting("threads", before,
              where + " line 3: device: expected auto, cpu, cuda or cuda:N, got \"gpu\"; device is auto (default)\n" +
                  where +
                  " line 2: precision: expected auto, model, fp32, fp16, bf16, fp8 or fp4, got neither text nor a "
                  "whole number; precision is auto (default)\n")["value"],
      "1");
  for (const auto& [text, at] : {std::pair("threads = 1\nprecision = \"fp16\n", " line 2, column "),
                                 {"threads = 1\nthreads = 2\n", " line 2, column "},
                                 {"threads = 1\n\n\xff\n", " line 3: expected ASCII "}}) {
    const ProgramResult result = run_program("env --json", with_config(text));
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(result.err.starts_with(where + at) && result.err.ends_with("; it is not used\n")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(json::parse(result.out)["settings"]["threads"]["origin"], "default");  // the file is ignored as a whole
    EXPECT_EQ(json::parse(result.out)["config_file_state"], "not used");
  }
  fs::remove(config());
  fs::create_directory(config());
  const ProgramResult result = run_program("version", before);
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.err.starts_with(where + ": ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(Env, CommandsObey) {
  const auto run = [&](const std::string& flags, const std::string& before) {
    const ProgramResult result = run_program("run --json " + policy() + " " + flags, before);
    EXPECT_EQ(result.code, 0) << result.err;
    json report = json::parse(result.out, nullptr, false);
    report["err"] = result.err;
    return report;
  };
  EXPECT_EQ(run("", "OPENPILOT_DGX_PRECISION=fp16")["precision"], "fp16");
  EXPECT_EQ(run("--precision fp32", "OPENPILOT_DGX_PRECISION=fp16")["precision"], "fp32");
  EXPECT_EQ(run("", with_config("precision = \"fp16\""))["precision"], "fp16");
  EXPECT_EQ(run("", "SPARKPILOT_THREADS=1")["threads"], 1);
  const json bench = json::parse(run_program("bench --json --repeats 0 --runs 2 --warmup 0 " + policy(),
                                             "OPENPILOT_DGX_PRECISION=fp16 SPARKPILOT_THREADS=1")
                                     .out);
  EXPECT_EQ(bench["models"][0]["precision"], "fp16");
  EXPECT_EQ(bench["models"][0]["threads"], 1);
  const json passes = run("", "DEBUG=1");
  EXPECT_NE(passes["err"].get<std::string>().find("pass precision: "), std::string::npos) << passes["err"];
  EXPECT_EQ(run("-v", "")["err"], passes["err"]);
  EXPECT_TRUE(run("", "DEBUG=2 SPARKPILOT_TUNE=")["err"].get<std::string>().starts_with("verbose: 2 (DEBUG=2)\n"));
  EXPECT_EQ(run("", "")["err"], "");
}

TEST_F(Env, WhatThisVersionCannotIsAWarningOrToAFlagARefusal) {
  for (const std::string mode : {"fp8", "fp4"}) {
    const ProgramResult result = run_program("run --json " + policy(), "OPENPILOT_DGX_PRECISION=" + mode);
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(result.err.starts_with("precision " + mode + ": weights are rounded to ")) << result.err;
    EXPECT_EQ(result.err.ends_with("; experimental\n"), mode == "fp4") << result.err;
    EXPECT_EQ(json::parse(result.out)["precision"], mode);
    EXPECT_EQ(run_program("run --quiet " + policy() + " --precision " + mode).err, "");
  }
  ProgramResult result = run_program("run --json --precision fp32 " + policy(), "OPENPILOT_DGX_PRECISION=fp8");
  EXPECT_EQ(result.err, "");
  result = run_program("run --json " + policy(), "CUDA=1");
  EXPECT_EQ(result.code, 0);
  const bool any_code = !parsed("version")["gpu_code"].empty();
  EXPECT_EQ(result.err, fmt::format("warning: CUDA=1: {}; device is auto (default)\n",
                                    any_code ? "no usable NVIDIA GPU" : "this program holds no GPU code"));
  EXPECT_EQ(run_program("run --json " + policy(), "CUDA=1 OPENPILOT_DISABLE_DGX=1").err, "");
  result = run_program("run --json " + policy(), "SPARKPILOT_THREADS=100000");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find("threads is auto (default)"), std::string::npos) << result.err;
  // A command that runs no model does not check these settings.
  EXPECT_EQ(run_program("zoo list", "CUDA=1 OPENPILOT_DGX_PRECISION=fp8").err, "");
}

TEST_F(Env, FoldersOfModelsAndRoutes) {
  fs::create_directories(folder.path() / "route--0");
  write_text(folder.file("route--0/qcamera.ts"), "");
  fs::create_directories(folder.path() / "empty");
  const std::string drive = "drive '" + (folder.file("route--0")) + "' --out '" + (folder.file("out")) + "'";
  expect_usage_error(drive, "expected one of --models DIR");
  const ProgramResult result = run_program(drive, "SPARKPILOT_MODELS='" + (folder.file("empty")) + "'");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find(folder.file("empty")), std::string::npos) << result.err;
  const std::string name = "route info 'a2a0ccea32023010|2023-07-27--13-01-19'";
  EXPECT_NE(run_program(name, "SPARKPILOT_DATA=/none LOG_ROOT=/other").err.find("not in /none"), std::string::npos);
  EXPECT_NE(run_program(name, with_config("data = '/none'")).err.find("not in /none"), std::string::npos);
}

TEST_F(Env, Colours) {
  EXPECT_NE(run_program("env", "SPARKPILOT_COLOR=always").out.find("\x1b["), std::string::npos);
  EXPECT_EQ(run_program("env", "NO_COLOR=1").out.find("\x1b["), std::string::npos);
  EXPECT_EQ(run_program("env", with_config("color = 'always'") + "NO_COLOR=1").out.find("\x1b["), std::string::npos);
  EXPECT_EQ(run_program("env", "").out.find("\x1b["), std::string::npos);
}

TEST_F(Env, ExportIsForAShellsEval) {
  const std::string program = "'" SPARKPILOT_PROGRAM "'";
  const std::string show = "printf '%s|' \"$DEV\" \"$CUDA\" \"$CPU\" \"$SPARKPILOT_DEVICE\"\n";
  const std::string twice =
      "eval \"$(" + program + " env --export)\"\n" + show + "eval \"$(" + program + " env --export)\"\n" + show;
  forget_settings();
  EXPECT_EQ(bash("set -eu\nexport CUDA=1 OPENPILOT_DISABLE_DGX=1\n" + twice), "CPU|0|1|cpu|CPU|0|1|cpu|");
  EXPECT_EQ(bash("set -eu\nexport SPARKPILOT_DEVICE=cpu CPU=0 CUDA=1 DEV=CUDA\n" + twice), "CPU|0|1|cpu|CPU|0|1|cpu|");
  // stderr is not part of what the shell evaluates.
  const ProgramResult result = run_program("env --export", "CUDA='; exit 1'");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.out, run_program("env --export").out);
  EXPECT_EQ(run_program("env --export --shell fish").out.find("set -gx DEV '"), 0u);
  if (std::system("command -v shellcheck >/dev/null") == 0) {
    bash(program + " env --export --device cpu | shellcheck --shell=sh -");
  }
  expect_usage_error("env --shell fish", "--export");
  expect_usage_error("env --export --json", "--json");
}

TEST_F(Env, WhereThereIsAGpu) {
  fs::create_symlink(FAKE_CUDA, folder / "libcuda.so.1");
  const std::string gpu = "LD_LIBRARY_PATH='" + folder.path().string() + "' ";
  const auto report = [](const std::string& before, const std::string& err = "") {
    const ProgramResult result = run_program("env --json", before);
    EXPECT_EQ(result.err, err);
    return json::parse(result.out, nullptr, false);
  };
  const json on = json::parse(R"({"DEV": "CUDA", "CUDA": "1", "CPU": "0", "CUDA_VISIBLE_DEVICES": "0",
                                  "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "SPARKPILOT_DEVICE": "auto"})");
  const json off = json::parse(R"({"DEV": "CPU", "CUDA": "0", "CPU": "1", "CUDA_VISIBLE_DEVICES": "-1",
                                   "SPARKPILOT_DEVICE": "cpu"})");
  EXPECT_EQ(report(gpu)["export"], on);
  EXPECT_EQ(report(gpu)["device"], "cuda:0");
  EXPECT_EQ(report(gpu + "CUDA=1")["device"], "cuda:0");
  EXPECT_EQ(report(gpu + "CUDA_DEVICE_ORDER=FASTEST_FIRST")["export"]["CUDA_DEVICE_ORDER"], "FASTEST_FIRST");
  EXPECT_EQ(report(gpu + "CUDA_VISIBLE_DEVICES=GPU-1")["export"]["CUDA_VISIBLE_DEVICES"], "GPU-1");
  for (const char* none : {"CUDA=0", "OPENPILOT_DGX_ENABLED=0 CUDA=1", "OPENPILOT_DISABLE_DGX=1 CUDA=1"}) {
    EXPECT_EQ(report(gpu + none)["export"], off) << none;
  }
  EXPECT_EQ(
      report(
          gpu + "SPARKPILOT_DEVICE=cuda:1",
          "warning: SPARKPILOT_DEVICE=cuda:1: no such usable NVIDIA GPU; there is cuda:0; device is auto (default)\n")
          ["device"],
      "cuda:0");
  const ProgramResult refused = run_program("env --device cuda:1", gpu);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "sparkpilot env: --device cuda:1: no such usable NVIDIA GPU; there is cuda:0\n");
  const std::string failed = gpu + "FAKE_DRIVER=failed ";
  EXPECT_EQ(report(failed)["device"], "cpu");
  EXPECT_EQ(report(failed + "CUDA=1 CUDA_VISIBLE_DEVICES=7",
                   "warning: CUDA=1: no usable NVIDIA GPU (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "
                   "CUDA_VISIBLE_DEVICES=7); device is auto (default)\n")["device"],
            "cpu");
  // Quotes in a value stay text.
  EXPECT_EQ(bash("export " + gpu +
                 " CUDA_VISIBLE_DEVICES=\"x' \\$(touch y)\"\neval \"$('" SPARKPILOT_PROGRAM
                 "' env --export)\"\nprintf %s \"$CUDA_VISIBLE_DEVICES\""),
            "x' $(touch y)");
}

TEST_F(Env, PageHoldsTheTable) {
  const std::string table = run_program("env --markdown").out;
  ASSERT_FALSE(table.empty());
  EXPECT_NE(read_text(SPARKPILOT_SOURCE_DIR "/docs/configuration.md").find("\n\n" + table + "\n"), std::string::npos)
      << "its table is what build/sparkpilot env --markdown prints";
}

}  // namespace env_test
}  // namespace sparkpilot
