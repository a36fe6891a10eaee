// The program on the emulated GPU, as a user calls it: drives, comparisons, the choice of a device, faults.
#include <nlohmann/json.hpp>

#include "drive_fixture.h"
#include "gpu_main.h"
#include "ops/cuda/images.h"

namespace sparkpilot {
namespace gpu_program_test {

// The GPUs, and the report that the driver writes at the end of the process. Held to the CPU's results in fp32; what
// the precision `auto` is there has a test of its own.
class GpuProgram : public DriveCli {
 protected:
  std::string with(const std::string& gpu, const std::string& fail = {}) const {
    fs::remove(report_file());  // a program that does not load the driver writes none
    return "SPARKPILOT_PRECISION=fp32 EMULATED_GPU=" + gpu + " EMULATED_CUDA_REPORT=" + in_quotes(report_file()) +
           (fail.empty() ? "" : " EMULATED_CUDA_FAIL=" + fail);
  }
  fs::path report_file() const { return folder.path() / "report"; }
  std::string held() const {
    const std::string text = read_text(report_file().string());
    return text.substr(0, text.find('\n'));
  }
  int count(const std::string& what) const {
    const std::string text = read_text(report_file().string());
    const size_t at = text.find("\n" + what + " ");
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + what.size() + 2);
  }
  static std::string policy() { return in_quotes(models() / "tiny_driving_policy.onnx"); }
  static double mean(const ProgramResult& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? json::parse(result.out)["outputs"][0]["mean"].get<double>() : 0;
  }
  void TearDown() override { setenv("XDG_CACHE_HOME", "/dev/null", 1); }
};

// Numbers may differ by rounding, everything else must be the same.
void expect_near(const json& got, const json& expected, const std::string& where) {
  if (expected.is_number_float() || got.is_number_float()) {
    const double a = got.get<double>(), b = expected.get<double>();
    EXPECT_LE(std::abs(a - b), 1e-3 + 1e-3 * std::abs(b)) << where;
    return;
  }
  ASSERT_EQ(got.type_name(), std::string(expected.type_name())) << where;
  if (!expected.is_structured()) {
    EXPECT_EQ(got, expected) << where;
    return;
  }
  ASSERT_EQ(got.size(), expected.size()) << where;
  for (const auto& [key, value] : expected.items()) {
    const json& other = expected.is_array() ? got[std::stoul(key)] : got[key];
    expect_near(other, value, where + "/" + key);
  }
}

TEST_F(GpuProgram, DrivesARouteAsTheCpuDoes) {
  NEEDS_IMAGES();
  const std::string flags = "--no-overlay --limit 3 --json --device ";
  ASSERT_EQ(drive(route(), out("cpu"), flags + "cpu").code, 0);
  for (const std::string gpu : {"gb10", "rtx4090"}) {
    const ProgramResult result = run_program(words(route(), out(gpu)) + flags + "cuda", with(gpu));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["device"], "cuda:0");
    EXPECT_EQ(held(), kNothingHeld);
    EXPECT_GE(count("call cuGraphLaunch"), 2 * 2 * 2 + 2);  // two networks on the frames of two segments, and at load
    for (const int segment : {0, 1}) {
      const auto got = models_of(out(gpu) / name(segment)), expected = models_of(out("cpu") / name(segment));
      ASSERT_EQ(got.size(), expected.size());
      ASSERT_GE(expected.size(), 2u);
      for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i], gpu + " " + std::to_string(i));
    }
  }
}

// A fault after the first result ends the drive; its segments are kept or marked, and --resume finishes it.
TEST_F(GpuProgram, AFaultEndsADriveThatCanBeResumed) {
  NEEDS_IMAGES();
  const std::string flags = "--no-overlay --limit 2 --device auto";
  ProgramResult result = run_program(words(route(), out("whole")) + flags, with("gb10"));
  ASSERT_EQ(result.code, 0) << result.err;
  const int launches = count("call cuGraphLaunch");
  result = run_program(words(route(), out("broken")) + flags,
                       with("gb10", "cuGraphLaunch:" + std::to_string(launches - 1) + ":700"));
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(result.err.find("cuGraphLaunch"), std::string::npos) << result.err;
  EXPECT_EQ(left_over(out("broken")), "");
  EXPECT_EQ(result_of(out("broken") / name(0))["complete"], true);
  EXPECT_FALSE(fs::exists(out("broken") / "summary.json"));
  result = run_program(words(route(), out("broken")) + flags + " --resume --json", with("gb10"));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["device"], "cuda:0");
  EXPECT_EQ(json::parse(result.out)["notes"],
            json::parse(read_text((out("whole") / "summary.json").string()))["notes"]);
  for (const int segment : {0, 1}) {
    const auto got = models_of(out("broken") / name(segment)), expected = models_of(out("whole") / name(segment));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i], std::to_string(i));
  }
}

// Where segments ran is kept with them: the summary does not say what only the last process used.
TEST_F(GpuProgram, TrainsAsTheCpuDoes) {
  NEEDS_IMAGES();
  const std::string teacher = in_quotes(out("teacher")), data = in_quotes(out("data"));
  ASSERT_EQ(run_program("zoo build --quiet --seed 2 tiny_driving_policy tiny_driving_vision --out " + teacher).code, 0);
  ASSERT_EQ(run_program("dataset build --quiet --synthetic 2 --seconds 2 --validation 0.5 --models " + teacher +
                            " --out " + data,
                        "CUDA=0")
                .code,
            0);
  const std::string flags = "train --models " + in_quotes(models()) + " --network policy --data " + data +
                            " --batch 2 --updates 2 --schedule constant --kind lora --rank 2 --threads 1 --json --out ";
  const auto losses = [](const ProgramResult& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    const json done = json::parse(result.out, nullptr, false);
    return std::pair(done.value("loss", 0.0), done.value("evaluation_loss", 0.0));
  };
  const auto [loss, evaluated] = losses(run_program(flags + in_quotes(out("cpu"))));
  for (const char* gpu : {"gb10", "rtx4090"}) {
    const ProgramResult result = run_program(flags + in_quotes(out(gpu)) + " --device cuda", with(gpu));
    const auto [gpu_loss, gpu_evaluated] = losses(result);
    EXPECT_NEAR(gpu_loss, loss, 1e-3 * std::abs(loss));
    EXPECT_NEAR(gpu_evaluated, evaluated, 1e-3 * std::abs(evaluated));
    EXPECT_NE(result.err.find("run on an H100 and an H200"), std::string::npos) << result.err;
    EXPECT_EQ(held(), kNothingHeld);
    EXPECT_GE(count("call cuGraphLaunch"), 2 * 3);  // gradients, norm and update, twice
    EXPECT_GT(count("kernel adamw_f32"), 0);
  }
  // It goes on where it was, on the same device; on another one only if that is asked for.
  const std::string resume = "train --json --resume " + in_quotes(out("gb10")) + " --updates ";
  losses(run_program(resume + "3", with("gb10")));
  EXPECT_GT(count("call cuModuleLoadData"), 0);
  const ProgramResult without = run_program(resume + "4", with("none"));
  EXPECT_NE(without.code, 0);
  const ProgramResult on_cpu = run_program(resume + "4 --device cpu", with("none"));
  losses(on_cpu);
  EXPECT_NE(on_cpu.err.find("processor"), std::string::npos) << on_cpu.err;
  EXPECT_EQ(run_program(flags + in_quotes(out("fault")) + " --device cuda", with("gb10", "cuGraphLaunch:3:700")).code,
            3);
}

TEST_F(GpuProgram, ADriveTellsOfAllItsDevices) {
  NEEDS_IMAGES();
  const std::string flags = "--no-overlay --limit 2 --device auto";
  ASSERT_EQ(run_program(words(route(), out()) + flags, with("gb10")).code, 0);
  fs::remove_all(out() / name(1));
  const ProgramResult result = run_program(words(route(), out()) + flags + " --resume --json", with("none"));
  ASSERT_EQ(result.code, 0) << result.err;
  const json summary = json::parse(result.out);
  EXPECT_EQ(summary["device"], "cuda:0, cpu");
  for (const json& network : summary["networks"]) EXPECT_EQ(network["device"], "cuda:0, cpu") << network;
  EXPECT_EQ(summary["segments"][0]["devices"], (json{{"policy", "cuda:0"}, {"vision", "cuda:0"}}));
  EXPECT_EQ(summary["segments"][1]["devices"], (json{{"policy", "cpu"}, {"vision", "cpu"}}));
  const json& notes = summary["notes"];
  EXPECT_NE(std::find(notes.begin(), notes.end(), "not all segments were driven on the same device"), notes.end());
}

// With auto the first process chooses for all: in the others the self-check would fail.
TEST_F(GpuProgram, OneOfSeveralProcessesChoosesTheDevice) {
  NEEDS_IMAGES();
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  const std::string launcher =
      "OMPI_MCA_rmaps_base_oversubscribe=1 timeout 120 mpirun --allow-run-as-root --oversubscribe -np 2 "
      R"(sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export EMULATED_CUDA_WRONG=word_votes; exec "$@"' sh)";
  const ProgramResult result =
      run_program(words(route(), out()) + "--no-overlay --limit 2 --json --device auto", with("gb10") + " " + launcher);
  ASSERT_EQ(result.code, 0) << result.err;
  const json summary = json::parse(result.out);
  EXPECT_EQ(summary["device"], "cuda:0");
  for (const int segment : {0, 1}) {
    EXPECT_EQ(result_of(out() / name(segment))["devices"], (json{{"policy", "cuda:0"}, {"vision", "cuda:0"}}));
  }
}

TEST_F(GpuProgram, ComparesDevicesAndPrecisions) {
  NEEDS_IMAGES();
  const ProgramResult result = run_program(
      "compare " + policy() + " --device cpu,cuda --precision fp32,fp16 --no-time --json --quiet", with("rtx4090"));
  ASSERT_EQ(result.code, 0) << result.err;
  const json variants = json::parse(result.out)["variants"];
  ASSERT_EQ(variants.size(), 4u);
  const char* const names[] = {"fp32 cpu", "fp32 cuda", "fp16 cpu", "fp16 cuda"};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(variants[i]["name"], names[i]);
  EXPECT_LT(variants[1]["outputs"][0]["relative_l2"].get<double>(), 5e-5);
  EXPECT_LT(variants[3]["outputs"][0]["relative_l2"].get<double>(), 2e-2);
  EXPECT_EQ(held(), kNothingHeld);
  EXPECT_GT(count("call cuGraphLaunch"), 0);
  const ProgramResult same = run_program(
      "compare " + policy() + " --device cpu,cuda --bisect --quiet --samples 1 --max-relative-l2 1e-4", with("gb10"));
  EXPECT_EQ(same.code, 0) << same.err << same.out;
  const ProgramResult refused = run_program("compare " + policy() + " --device cpu,cuda:4", with("gb10"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--device cuda:4: no such usable NVIDIA GPU"), std::string::npos) << refused.err;
}

TEST_F(GpuProgram, ComparesDevicesOnARoute) {
  NEEDS_IMAGES();
  const ProgramResult result =
      run_program("compare --route " + in_quotes(route()) + " --models " + in_quotes(models()) +
                      " --device cpu,cuda --limit 2 --max-plan-error 1e-3 --json --quiet",
                  with("rtx4090"));
  ASSERT_EQ(result.code, 0) << result.err << result.out;
  EXPECT_EQ(json::parse(result.out)["variants"][1]["name"], "cuda");
  EXPECT_GT(count("call cuGraphLaunch"), 0);
  EXPECT_EQ(held(), kNothingHeld);
}

TEST_F(GpuProgram, EveryCommandThatRunsAModelTakesAGpu) {
  NEEDS_IMAGES();
  EXPECT_EQ(run_program("model check " + policy() + " --device cuda", with("gb10")).code, 0);
  EXPECT_GT(count("call cuGraphLaunch"), 0);
  EXPECT_EQ(run_program("bench " + policy() + " --device auto --runs 1 --warmup 0 --threads 1", with("gb10")).code, 0);
  EXPECT_GT(count("call cuGraphLaunch"), 0);
  EXPECT_EQ(run_program("run " + policy(), "OPENPILOT_DGX_ENABLED=1 " + with("gb10")).code, 0);
  EXPECT_GT(count("call cuGraphLaunch"), 0);
  for (const std::string setting : {"OPENPILOT_DGX_ENABLED=0", "OPENPILOT_DISABLE_DGX=1", "CUDA=0"}) {
    EXPECT_EQ(run_program("run " + policy(), setting + " " + with("gb10")).code, 0);
    EXPECT_EQ(count("call cuGraphLaunch"), 0) << setting;
  }
}

// Sessions in turns, processes that repeat, and a baseline all have the device that was taken first.
TEST_F(GpuProgram, BenchDecidesOnTheDeviceOnce) {
  NEEDS_IMAGES();
  // The self-check passes once and is remembered; then kernels need not compute anything.
  const std::string cached = "SPARKPILOT_TUNE=auto XDG_CACHE_HOME=" + in_quotes(folder.path()) + " ",
                    idle = cached + "EMULATED_CUDA_IDLE=1 ", quick = " --runs 1 --warmup 0 --threads 1 --json ";
  ASSERT_EQ(run_program("run --threads 1 " + policy(), cached + with("gb10")).code, 0);
  ProgramResult result = run_program("bench --repeats 0" + quick + policy() + " " + policy(), idle + with("gb10"));
  ASSERT_EQ(result.code, 0) << result.err;
  int choices = 0;
  for (size_t at = 0; (at = result.err.find("the self-check has passed", at)) != std::string::npos; ++at) ++choices;
  EXPECT_EQ(choices, 2) << result.err;
  for (const json& model : json::parse(result.out)["models"]) EXPECT_EQ(model["settings"]["device"], "cuda:0");

  // A process that repeats is told, whatever the flags are.
  const std::string told = R"(sh -c 'echo "{\"device\":\"cpu\",\"threads\":1,\"choices\":[]}" | "$@"' sh)";
  result = run_program("bench " + policy() + " --as-repeat 0", idle + with("gb10") + " " + told);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count("call cuGraphLaunch"), 0);

  const std::string bench = "bench --repeats 5 " + policy() + quick, base = folder.file("base.json");
  result = run_program(bench, idle + with("gb10"));
  ASSERT_EQ(result.code, 0) << result.err;
  write_text(base, result.out);
  result = run_program(bench + " --memory-reserve 900000000000000 --baseline " + base, idle + with("gb10"));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("device: expected \"cuda:0\", got \"cpu\""), std::string::npos) << result.err;
  result = run_program(bench + " --device cuda --seed 7 --baseline " + base, idle + with("gb10"));
  EXPECT_NE(result.err.find("seed: expected 1, got 7"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("1 thing differs"), std::string::npos) << result.err;
}

// A precision is refused where the device that runs the model cannot compute in it, however the device was chosen.
TEST_F(GpuProgram, PrecisionsAreThoseOfTheDevice) {
  NEEDS_IMAGES();
  const std::string without_bf16 = "SPARKPILOT_CPU=baseline EMULATED_CUDA_IDLE=1 " + with("gb10") + " ";
  const std::string quick = " --repeats 0 --runs 1 --warmup 0 ";
  const auto run_so = [&](const std::string& words, const std::string& variables = {}) {
    return run_program(words + " " + policy(), without_bf16 + variables);
  };
  for (const auto& [words, variables] : {std::pair<std::string, std::string>{"run --precision bf16 --device cuda", ""},
                                         {"run --precision bf16", "SPARKPILOT_DEVICE=cuda"},
                                         {"run", "SPARKPILOT_PRECISION=bf16 OPENPILOT_DGX_ENABLED=1"},
                                         {"bench --json --precision fp32,bf16" + quick, "SPARKPILOT_DEVICE=cuda"},
                                         {"compare --no-time --precision bf16 --device cuda,cuda:0", ""}}) {
    const ProgramResult result = run_so(words, variables);
    EXPECT_EQ(result.code, 0) << variables << " " << words << ": " << result.err;
    EXPECT_EQ(result.err.find("bf16 needs"), std::string::npos) << variables << " " << words << ": " << result.err;
  }
  for (const auto& [words, variables] : {std::pair<std::string, std::string>{"run --precision bf16 --device cpu", ""},
                                         {"run --precision bf16 --device cpu", "SPARKPILOT_DEVICE=cuda"},
                                         {"bench --json --precision fp32,bf16 --device cpu" + quick, "CUDA=1"},
                                         {"compare --no-time --precision bf16 --device cuda,cpu", ""}}) {
    const ProgramResult result = run_so(words, variables);
    EXPECT_EQ(result.code, 2) << variables << " " << words << ": " << result.err;
    EXPECT_NE(result.err.find("bf16 needs a CPU with bf16 arithmetic"), std::string::npos) << result.err;
  }
}

// NVML's figures are means of the last second, so runs go on for longer than that before they are taken.
TEST_F(GpuProgram, BenchMetersAGpuThatIsAtWork) {
  NEEDS_IMAGES();
  fs::create_symlink(FAKE_NVML, folder.path() / "libnvidia-ml.so.1");
  const ProgramResult result =
      run_program("bench --device cuda --runs 1 --warmup 0 --repeats 0 --json " + policy(),
                  "EMULATED_CUDA_IDLE=1 LD_LIBRARY_PATH=" + in_quotes(folder.path()) + ":\"$LD_LIBRARY_PATH\" " +
                      with("gb10"));  // at the address that the fake NVML knows
  ASSERT_EQ(result.code, 0) << result.err;
  const json load = json::parse(result.out)["models"][0]["gpu"]["load"];
  ASSERT_TRUE(load.is_object()) << result.out;
  EXPECT_EQ(load["power_w"], 13.5);
  EXPECT_EQ(load["busy_percent"], 3);
  EXPECT_NEAR(load["seconds"].get<double>(), 1, 0.5);
  EXPECT_GT(load["frames"].get<double>(), 10);
  EXPECT_GT(count("call cuGraphLaunch"), 1.8 * load["frames"].get<double>());
}

// What is timed once is known to the next process, and is told apart from loading; so is compiling PTX.
TEST_F(GpuProgram, BenchTellsTimingAndCompilingApart) {
  NEEDS_IMAGES();
  const std::string bench = "bench " + policy() + " --device cuda --runs 1 --warmup 0 --repeats 0 --threads 1 --json";
  const auto run = [&](const std::string& gpu, const std::string& flags) {
    const ProgramResult result =
        run_program(bench + flags, "XDG_CACHE_HOME=" + in_quotes(folder.path() / "cache") +
                                       " EMULATED_CUDA_IDLE=1 EMULATED_CUDA_TIMES=gemv_f32=5 " + with(gpu));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err.find("compiled kernels from PTX in ") != std::string::npos, gpu == "b200") << result.err;
    EXPECT_EQ(result.err.find("timing the kernels of ") != std::string::npos, flags == " --tune full") << result.err;
    return json::parse(result.out)["models"][0];
  };
  const json timed = run("gb10", " --tune full"), known = run("gb10", " --tune auto"), off = run("gb10", " --tune off"),
             compiled = run("b200", " --tune off");
  EXPECT_GT(timed["tuning_ms"], 0);
  EXPECT_GT(timed["load_ms"], 0);
  ASSERT_FALSE(timed["choices"].empty());
  for (const json& choice : timed["choices"]) EXPECT_EQ(choice["chosen_by"], "measured") << choice;
  EXPECT_EQ(known["choices"], timed["choices"]);
  for (const json& choice : off["choices"]) EXPECT_EQ(choice["chosen_by"], "rules") << choice;
  for (const json& other : {known, off, compiled}) EXPECT_EQ(other["tuning_ms"], 0);
  EXPECT_EQ(timed["ptx_ms"], 0);
  EXPECT_GT(compiled["ptx_ms"], 0);
  const ProgramResult text = run_program("bench " + policy() + " --device cuda --runs 1 --warmup 0 --threads 1",
                                         "EMULATED_CUDA_IDLE=1 " + with("gb10"));
  EXPECT_NE(text.out.find(": loaded in "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(", kernels compiled from PTX in 0"), std::string::npos) << text.out;
}

TEST_F(GpuProgram, AutoSaysWhatItChose) {
  NEEDS_IMAGES();
  const double expected = mean(run_program("run --json --device cpu " + policy()));
  ProgramResult result = run_program("run --json " + policy(), with("rtx4090"));
  EXPECT_NEAR(mean(result), expected, 1e-5);
  EXPECT_EQ(json::parse(result.out)["device"], "cuda:0");
  EXPECT_NE(result.err.find("the self-check has passed in "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" ms; run on an H100 and an H200"), std::string::npos) << result.err;
  // On the emulated GPU the check takes longer than the rest of loading, which does not count it. A load may be slow
  // for other reasons, but not each time.
  const auto load_does_not_count_it = [&](const std::string& command, const char* at) {
    for (int i = 0; i < 10; ++i) {
      const ProgramResult run = run_program(command + policy(), with("rtx4090"));
      EXPECT_EQ(run.code, 0) << run.err;
      const json told = json::parse(run.out).at(json::json_pointer(at));
      if (told.at("load_ms").get<double>() < told.at("self_check_ms").get<double>()) return true;
    }
    return false;
  };
  EXPECT_TRUE(load_does_not_count_it("run --json ", ""));
  const std::string compare = "compare --device cuda,auto --no-time --quiet --json ";
  EXPECT_TRUE(load_does_not_count_it(compare, "/variants/1"));
  result = run_program(compare + policy(), with("rtx4090"));
  EXPECT_FALSE(json::parse(result.out)["variants"][0].contains("self_check_ms"));
  result = run_program("run --json " + policy(), with("none"));
  EXPECT_EQ(json::parse(result.out)["device"], "cpu");
  EXPECT_EQ(result.err, "");
  const std::string by_default = "SPARKPILOT_PRECISION=auto";
  EXPECT_EQ(json::parse(run_program("run --json " + policy(), with("none") + " " + by_default).out)["precision"],
            "fp32");
  for (const char* device : {"auto", "cuda"}) {
    const auto in_fp16 =
        run_program(std::string("run --json --device ") + device + " " + policy(), with("rtx4090") + " " + by_default);
    EXPECT_NEAR(mean(in_fp16), expected, 1e-3);
    EXPECT_EQ(json::parse(in_fp16.out)["precision"], "fp16") << device;
  }
  result =
      run_program("compare --device cpu,cuda --no-time --quiet --json " + policy(), with("rtx4090") + " " + by_default);
  EXPECT_EQ(json::parse(result.out)["variants"][1]["precision"], "fp32");
  result = run_program("run --json -v --passes none " + policy(), with("none"));
  EXPECT_NE(result.err.find("device auto: the CPU, there is no usable NVIDIA GPU"), std::string::npos) << result.err;
  result = run_program("run --json --memory-reserve 900000000000000 " + policy(), with("rtx4090"));
  EXPECT_EQ(json::parse(result.out)["device"], "cpu");
  EXPECT_NE(result.err.find("(900000.00 GB are kept for the system); the model runs on the CPU"), std::string::npos)
      << result.err;
  result = run_program("run --memory-reserve 900000000000000 --device cuda " + policy(), with("gb10"));
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.err.find("for weights"), std::string::npos) << result.err;
}

// Each driver call fails once, early and late: exit code 3 with cuda, the CPU's result with auto.
TEST_F(GpuProgram, FaultsOfTheDriver) {
  NEEDS_IMAGES();
  const double expected = mean(run_program("run --json --device cpu " + policy()));
  ASSERT_EQ(run_program("run --device cuda " + policy(), with("rtx4090")).code, 0);
  const std::string calls = read_text(report_file().string());
  std::vector<std::string> names;
#define SPARKPILOT_NAME(name, parameters) names.push_back(#name);
  SPARKPILOT_CUDA_FUNCTIONS(SPARKPILOT_NAME)
  int failed = 0, left = 0;
  for (const std::string& name : names) {
    const size_t at = calls.find("call " + name + " ");
    if (at == std::string::npos) continue;
    const int last = std::atoi(calls.c_str() + at + name.size() + 6);
    const bool is_end = name.find("Free") != std::string::npos || name.find("Destroy") != std::string::npos ||
                        name.find("Unload") != std::string::npos || name.find("Release") != std::string::npos;
    for (const int nth : std::set<int>{std::min(last, 2), last}) {
      const std::string fail = name + ":" + std::to_string(nth) + ":" + (nth == last ? "2" : "700");
      const fs::path to = out("values");
      fs::remove_all(to);
      ProgramResult result =
          run_program("run --json --device cuda --output-dir " + in_quotes(to) + " " + policy(), with("rtx4090", fail));
      // 2: the driver does not start, so there is no such device.
      EXPECT_TRUE(result.code == 0 || result.code == 3 || result.code == 2) << fail << " " << result.err;
      failed += result.code == 3;
      if (result.code == 0) {
        EXPECT_NEAR(json::parse(result.out)["outputs"][0]["mean"].get<double>(), expected, 1e-5);
      } else {
        EXPECT_FALSE(fs::exists(to)) << fail;
      }
      if (nth == last && !is_end && result.code == 3) {
        EXPECT_EQ(held(), kNothingHeld) << fail;
      }
      result = run_program("run --json --device auto " + policy(), with("rtx4090", fail));
      EXPECT_NEAR(mean(result), expected, 1e-5) << fail;
      if (result.code != 0) continue;
      const bool on_cpu = json::parse(result.out)["device"] == "cpu";
      left += on_cpu;
      EXPECT_TRUE(!on_cpu || result.err.find("the model runs on the CPU") != std::string::npos)
          << fail << " " << result.err;
    }
  }
  EXPECT_GT(failed, 20);
  EXPECT_GT(left, 10);
}

TEST_F(GpuProgram, DriversAndGpusThatCannotBeUsed) {
  NEEDS_IMAGES();
  const ProgramResult none = run_program("run --device cuda " + policy(), with("none"));
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--device cuda: no usable NVIDIA GPU"), std::string::npos) << none.err;
  const ProgramResult other = run_program("run --device cuda:1 " + policy(), with("gb10"));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("there is cuda:0"), std::string::npos) << other.err;
  const ProgramResult old = run_program("run --device cuda " + policy(), with("gtx1080"));
  EXPECT_EQ(old.code, 2);
  EXPECT_NE(old.err.find("no usable NVIDIA GPU (compute capability 6.1; 8.0 or newer is needed)"), std::string::npos)
      << old.err;
  const ProgramResult instead = run_program("run --json " + policy(), with("gtx1080"));
  EXPECT_EQ(instead.code, 0);
  EXPECT_NE(instead.err.find("8.0 or newer is needed; the model runs on the CPU"), std::string::npos) << instead.err;
  const ProgramResult hidden = run_program("run --device cuda " + policy(), with("none") + " CUDA_VISIBLE_DEVICES=7");
  EXPECT_EQ(hidden.code, 2);
  EXPECT_NE(hidden.err.find("CUDA_VISIBLE_DEVICES=7"), std::string::npos) << hidden.err;
}

}  // namespace gpu_program_test
}  // namespace sparkpilot
