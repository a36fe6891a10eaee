// sparkpilot bench as users run it: several models or precisions, and what its JSON says of the machine.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli_fixture.h"
#include "shared_folder.h"

namespace sparkpilot {
namespace bench_cli_test {

TEST_F(Cli, BenchComparesInTurns) {
  const std::string quick = " --threads 1 --runs 5 --warmup 1";
  const json document = parsed("bench --repeats 0 " + policy() + " --precision fp32,fp16" + quick);
  ASSERT_EQ(document["models"].size(), 2u);
  EXPECT_EQ(document["models"][0]["precision"], "fp32");
  EXPECT_FALSE(document["models"][0].contains("time_ratio"));
  const json& fp16 = document["models"][1];
  EXPECT_EQ(fp16["precision"], "fp16");
  EXPECT_EQ(keys(fp16["time_ratio"]), (Keys{"median", "low", "high", "rounds"}));
  EXPECT_GT(fp16["time_ratio"]["median"], 0);
  EXPECT_LE(fp16["time_ratio"]["low"], fp16["time_ratio"]["high"]);
  EXPECT_EQ(document["models"][0]["file_fnv1a_64"], fp16["file_fnv1a_64"]);

  const std::string two =
      run_program("bench " + policy() + " '" + models->file("tiny_driving_vision.onnx") + "' --profile" + quick).out;
  EXPECT_NE(two.find("90 %"), std::string::npos) << two;
  EXPECT_NE(two.find(" to "), std::string::npos) << two;
  const std::string named = run_program("bench " + policy() + " --precision fp32,fp16" + quick).out;
  EXPECT_NE(named.find("tiny_driving_policy.onnx fp16"), std::string::npos) << named;
  const std::string one = run_program("bench " + policy() + quick).out;
  EXPECT_EQ(one.find("90 %"), std::string::npos) << "one model alone has nothing to be compared with\n" << one;
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 2) << one;
}

TEST_F(Cli, BenchNamesKnownPrecisions) {
  expect_usage_error("bench " + policy() + " --precision fp33", "(did you mean fp32?)");
  expect_usage_error("bench " + policy() + " --precision fp32,fp33",
                     "expected auto, model, fp32, fp16, bf16, fp8 or fp4");
  expect_usage_error("bench " + policy() + " --precision fp32,,fp16", "an empty item");
  expect_usage_error("bench " + policy() + " --precision fp16,fp16", "fp16 is given twice");
  for (const char* list : {"bf16", "fp32,bf16"}) {
    const ProgramResult lesser = run_program("bench " + policy() + " --precision " + list, "SPARKPILOT_CPU=baseline");
    EXPECT_EQ(lesser.code, 2) << lesser.err;
    EXPECT_NE(lesser.err.find("bf16 needs a CPU with bf16 arithmetic"), std::string::npos) << lesser.err;
  }
}

TEST_F(Cli, BenchSaysWhereAndOfWhat) {
  const json document = parsed("bench --repeats 0 " + policy() + " --threads 1 --runs 2 --seed 7 --passes no-fold");
  EXPECT_EQ(keys(document), (Keys{"format", "format_version", "machine", "versions", "models"}));
  EXPECT_EQ(document["format"], "sparkpilot bench");
  EXPECT_EQ(keys(document["machine"]),
            (Keys{"system", "architecture", "processor", "instruction_sets", "logical_processors", "memory_bytes",
                  "operating_system", "kernel", "gpus", "gpu_driver"}));
  EXPECT_GT(document["machine"]["memory_bytes"], 1e8);
  const json version = parsed("version");
  EXPECT_EQ(document["machine"]["processor"], version["processor"]);
  EXPECT_EQ(document["versions"]["sparkpilot"], version["version"]);
  EXPECT_EQ(document["versions"]["compiler"], version["compiler"]);
  const json& model = document["models"][0];
  EXPECT_EQ(model["file_bytes"], std::filesystem::file_size(models->file("tiny_driving_policy.onnx")));
  EXPECT_EQ(model["settings"]["seed"], 7);
  EXPECT_EQ(model["settings"]["passes_off"], json{"fold"});
  EXPECT_EQ(model["settings"]["tune"], "off");
  ASSERT_FALSE(model["choices"].empty());
  EXPECT_EQ(keys(model["choices"][0]), (Keys{"node", "kernel", "chosen_by", "note"}));
}

// The repeats' times decide nothing here: where a verdict depends on them, both are accepted.
class BenchBaseline : public Cli {
 protected:
  static void SetUpTestSuite() {
    Cli::SetUpTestSuite();
    measured = new SharedFolder("bench");
    measured->fill([] { write_text(measured->path() / "base.json", parsed("bench " + policy() + kQuick).dump()); });
    document = json::parse(read_text(measured->path() / "base.json"));
  }
  static void TearDownTestSuite() {
    Cli::TearDownTestSuite();
    delete measured;
  }
  BenchBaseline() { write(document); }
  void write(const json& baseline) const { write_text(folder.file("base.json"), baseline.dump(2)); }
  ProgramResult against(const std::string& flags = "", const std::string& before = "") const {
    return run_program("bench " + policy() + kQuick + "--baseline '" + folder.file("base.json") + "' " + flags, before);
  }
  // Changes one value of the baseline; the lines that are printed then, in the order of `words`.
  void expect_refusal(const std::string& place, const json& value, const std::vector<std::string>& words,
                      const std::string& flags = "") {
    json changed = document;
    changed[json::json_pointer(place)] = value;
    write(changed);
    const ProgramResult result = against(flags);
    EXPECT_EQ(result.code, 2) << place;
    EXPECT_EQ(result.out, "") << place;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), std::ssize(words)) << result.err;
    for (const std::string& word : words)
      EXPECT_NE(result.err.find(word), std::string::npos) << word << "\n" << result.err;
  }
  static constexpr const char* kQuick = " --threads 1 --runs 2 --warmup 0 --repeats 5 ";
  inline static SharedFolder* measured = nullptr;
  inline static json document;
};

TEST_F(BenchBaseline, IsWhatJsonWrote) {
  const json& repeats = document["models"][0]["repeats"];
  EXPECT_EQ(keys(repeats), (Keys{"yardstick", "processes"}));
  EXPECT_EQ(repeats["yardstick"]["version"], 1);
  ASSERT_GE(repeats["processes"].size(), 5u) << "more if the machine is busy";
  const json& one = repeats["processes"][0];
  EXPECT_EQ(keys(one), (Keys{"model_ms", "wait_share", "arithmetic_ms", "near_ms", "far_ms"}));
  EXPECT_GE(one["model_ms"].size(), 5u);
  EXPECT_EQ(one["near_ms"].size(), one["model_ms"].size() + 1);

  const ProgramResult text = against();
  EXPECT_TRUE(text.code == 0 || text.code == 4) << text.err;
  for (const char* word : {"against ", "base.json", "98.75 %", "allowed", "1.050", "verdict"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
  const ProgramResult answer = against("--json --max-regression 0.25");
  const json now = json::parse(answer.out);
  EXPECT_EQ(now["baseline"]["file"], folder.file("base.json"));
  EXPECT_TRUE(now["baseline"]["differences"].empty()) << now["baseline"];
  const json& result = now["models"][0]["baseline"];
  EXPECT_EQ(keys(result), (Keys{"verdict", "max_regression", "time_ratio", "repeats_then", "used_then", "repeats_now",
                                "used_now", "machine", "doubts", "notes"}));
  EXPECT_EQ(result["max_regression"], 0.25);
  EXPECT_EQ(result["repeats_then"], repeats["processes"].size());
  EXPECT_GE(result["repeats_now"], 5);
  EXPECT_EQ(result["machine"].size(), 3u);
  EXPECT_EQ(answer.code == 4, result["verdict"] == "regression");
  EXPECT_EQ(now["models"][0]["repeats"]["processes"].size(), result["repeats_now"]) << "itself a baseline";
}

// A hundred times as fast, or as slow, is more than any noise; whether the repeats were undisturbed is another matter.
TEST_F(BenchBaseline, FourIsTheCodeOfARegression) {
  const auto scaled = [&](double factor) {
    json changed = document;
    for (json& process : changed["models"][0]["repeats"]["processes"]) {
      for (json& ms : process["model_ms"]) ms = ms.get<double>() * factor;
    }
    write(changed);
    const ProgramResult result = against("--json");
    const json verdict = json::parse(result.out)["models"][0]["baseline"]["verdict"];
    EXPECT_EQ(result.code, verdict == "regression" ? 4 : 0) << result.err;
    EXPECT_EQ(result.err.find("slower: its time is ") != std::string::npos, verdict == "regression") << result.err;
    EXPECT_EQ(result.err.find("cannot tell: ") != std::string::npos, verdict == "cannot_tell") << result.err;
    return verdict;
  };
  // Nothing is known of a ratio where there are too few repeats.
  json few = document;
  while (few["models"][0]["repeats"]["processes"].size() > 1) few["models"][0]["repeats"]["processes"].erase(1);
  write(few);
  const json ratio = json::parse(against("--json").out)["models"][0]["baseline"]["time_ratio"];
  for (const char* key : {"ratio", "low", "high"}) EXPECT_TRUE(ratio[key].is_null()) << ratio;
  EXPECT_NE(scaled(0.01), "passed");
  EXPECT_NE(scaled(100), "regression");
}

TEST_F(BenchBaseline, OtherMachinesAndModelsAreRefused) {
  const std::string other_machine = "this baseline is of another machine: 1 thing differs, nothing was compared";
  const std::string other_model = "this baseline is of another model or other settings: 1 thing differs";
  expect_refusal("/machine/processor", "Abacus", {"base.json: processor: expected \"Abacus\", got ", other_machine});
  expect_refusal("/machine/gpu_driver", "1.2", {"base.json: gpu_driver: expected \"1.2\", got ", other_machine});
  expect_refusal("/machine/memory_bytes", 1000, {"memory_bytes: expected 1000, got ", other_machine});
  expect_refusal("/models/0/file_fnv1a_64", "00", {"base.json: model: expected ", other_model});
  expect_refusal("/models/0/batch", 3, {"base.json: batch: expected 3, got 1", other_model});
  expect_refusal("/models/0/threads", 7, {"base.json: threads: expected 7, got 1", other_model});
  expect_refusal("/models/0/repeats/yardstick/version", 9, {"yardstick version: expected 9, got 1", other_model});
  expect_refusal("/models/0/precision", "fp16", {"precision: expected \"fp16\", got \"fp32\"", other_model});
  expect_refusal("/machine/kernel", "other",
                 {"seed: expected 1, got 2", "precision: expected \"fp32\", got \"fp16\"",
                  "another model or other settings: 2 things differ"},
                 "--seed 2 --precision fp16");
}

TEST_F(BenchBaseline, OtherKernelsAreNotedOnly) {
  json changed = document;
  changed["machine"]["kernel"] = "0.1";
  changed["models"][0]["choices"][0]["kernel"] = "abacus";
  changed["models"][0]["repeats"].erase("comment");
  write(changed);
  const ProgramResult result = against();
  EXPECT_TRUE(result.code == 0 || result.code == 4) << result.err;
  EXPECT_NE(result.err.find("kernel \"abacus\" in the baseline, "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("kernel: \"0.1\" in the baseline, "), std::string::npos) << result.err;
  changed["models"][0]["threads"] = 2;  // not asked for here: the baseline's
  write(changed);
  const json now = json::parse(
      run_program("bench " + policy() + " --runs 2 --repeats 5 --json --baseline '" + folder.file("base.json") + "'")
          .out);
  EXPECT_EQ(now["models"][0]["threads"], 2);
}

TEST_F(BenchBaseline, EachPrecisionHasItsOwn) {
  const json both = parsed("bench " + policy() + kQuick + "--precision fp32,fp16");
  ASSERT_EQ(both["models"].size(), 2u);
  write(both);
  const json now = json::parse(against("--precision fp16 --json").out);
  ASSERT_EQ(now["models"].size(), 1u);
  EXPECT_EQ(now["models"][0]["precision"], "fp16");
  EXPECT_EQ(now["models"][0]["baseline"]["repeats_then"], both["models"][1]["repeats"]["processes"].size());
  const json turns = json::parse(against("--precision fp16,fp32 --json").out);
  ASSERT_EQ(turns["models"].size(), 2u);
  for (const json& model : turns["models"]) EXPECT_TRUE(model.contains("baseline")) << model["precision"];
}

TEST_F(BenchBaseline, BadFilesAreOneLine) {
  const std::string base = folder.file("base.json"), text = document.dump(2);
  const std::string bench = "bench " + policy() + kQuick + "--baseline '" + base + "'";
  for (const size_t length : {size_t{1}, text.size() / 3, text.size() - 1}) {
    write_text(base, text.substr(0, length));
    expect_usage_error(bench, "base.json: the file is cut short, it ends in the middle of JSON after ");
  }
  write_text(base, "");
  expect_usage_error(bench, "base.json: the file is empty");
  write_text(base, "{}");
  expect_usage_error(bench, "base.json: expected what `sparkpilot bench --json` writes, this is other JSON");
  json changed = document;
  changed["models"][0].erase("repeats");
  write(changed);
  expect_usage_error(bench, "/models/0 has no repeats: it was measured with --repeats 0");
  changed = document;
  changed["models"][0]["threads"] = 100'000;
  write(changed);
  const std::string no_threads = "bench " + policy() + " --baseline '" + base + "'";
  expect_usage_error(no_threads, "base.json: 100000 threads: ");
  changed = document;
  changed["models"][0]["repeats"]["processes"][2]["model_ms"][1] = -1;
  write(changed);
  expect_usage_error(bench, "base.json: /models/0/repeats/processes/2/model_ms/1: expected a number above 0");
  std::filesystem::remove(base);
  expect_usage_error(bench, "base.json");
}

TEST_F(Cli, BenchBaselineFlagsAreChecked) {
  const std::string bench = "bench " + policy();
  for (const char* share : {"much", "-5%", "5", "1", "%", "5%%", "nan", "inf", "0.05x"}) {
    expect_usage_error(bench + " --max-regression " + share,
                       "--max-regression: expected a share such as 5% or 0.05, got");
  }
  expect_usage_error(bench + " --max-regression 5%", "--max-regression has no effect without --baseline");
  expect_usage_error(bench + " --json --repeats 3", "--repeats: expected 0, or at least 5, got 3");
  expect_usage_error(bench + " --json --repeats many", "--repeats");
  expect_usage_error(bench + " --repeats 5", "--repeats has no effect without --json or --baseline");
  expect_usage_error(bench + " --baseline x.json --repeats 0", "--baseline needs repeats");
  expect_usage_error(bench + " --as-repeat 0", "--as-repeat is for processes that bench itself starts");
  expect_usage_error(bench + " --as-repeat 3", "--as-repeat: expected 0 to 0, got 3");
}

}  // namespace bench_cli_test
}  // namespace sparkpilot
