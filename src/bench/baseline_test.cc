#include "bench/baseline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_files.h"
#include "bench/facts.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

Json machine() {
  return Json::parse(R"({"system": null, "architecture": "x86_64", "processor": "A", "instruction_sets": ["avx2"],
                         "logical_processors": 8, "memory_bytes": 16000000000, "operating_system": "Debian 12",
                         "kernel": "6.1", "gpus": [], "gpu_driver": null})");
}
Json versions() { return {{"sparkpilot", "0.1.0"}, {"compiler", "gcc 12"}, {"onednn", "2.6.3"}}; }
Json settings() { return settings_facts({}); }

Json document() {
  const Repeat repeat{
      .model_ms = {3, 3.1}, .wait_share = {0, 0}, .yardstick = {{0.1, 0.3, 0.8}, {0.1, 0.3, 0.8}, {0.1, 0.3, 0.8}}};
  const std::vector<Repeat> repeats(2, repeat);
  Json model{{"file", "model.onnx"},
             {"file_fnv1a_64", "00000000000000aa"},
             {"precision", "fp32"},
             {"threads", 2},
             {"batch", 1},
             {"settings", settings()},
             {"choices",
              {{{"node", "Conv 3x3"}, {"kernel", "onednn"}},
               {{"node", "Conv 5x5"}, {"kernel", "onednn"}},
               {{"node", "Gemm"}, {"kernel", "simd"}}}},
             {"repeats", to_json(std::span<const Repeat>(repeats))}};
  return {{"format", kBenchFormat},
          {"format_version", kBenchFormatVersion},
          {"machine", machine()},
          {"versions", versions()},
          {"models", Json::array({std::move(model)})}};
}

std::string refusal(const std::string& text) {
  try {
    parse_baseline(text, "base.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
    return error.what();
  }
  return "accepted";
}

BenchSubject subject() {
  return {.file = "new.onnx",
          .fnv1a_64 = "00000000000000aa",
          .precision = "fp32",
          .threads = 2,
          .settings = texts_of(settings())};
}

TEST(Baseline, IsWhatBenchWrote) {
  const Baseline baseline = parse_baseline(document().dump(2), "base.json");
  ASSERT_EQ(baseline.models.size(), 1u);
  const BaselineModel& model = baseline.models[0];
  EXPECT_EQ(model.subject.threads, 2);
  EXPECT_EQ(model.choices.size(), 3u);
  EXPECT_EQ(model.yardstick_version, kYardstickVersion);
  ASSERT_EQ(model.repeats.size(), 2u);
  EXPECT_EQ(model.repeats[1].model_ms, (std::vector<double>{3, 3.1}));
  EXPECT_TRUE(machine_differences(baseline, machine()).empty());
  EXPECT_TRUE(machine_notes(baseline, machine(), versions()).empty());
  EXPECT_TRUE(find_model(baseline, subject()).differences.empty());
  EXPECT_TRUE(choice_notes(model, subject(), model.choices).empty());
}

TEST(Baseline, CutShortAnywhereIsRefused) {
  const std::string text = document().dump();
  for (size_t length = 0; length < text.size(); ++length) {
    const std::string message = refusal(text.substr(0, length));
    EXPECT_EQ(message, length == 0
                           ? "base.json: the file is empty"
                           : fmt::format("base.json: the file is cut short, it ends in the middle of JSON after "
                                         "{} bytes",
                                         length));
  }
  EXPECT_EQ(refusal(text), "accepted");
  EXPECT_EQ(refusal(text + "\n"), "accepted");
}

TEST(Baseline, OtherFilesAreRefused) {
  EXPECT_EQ(refusal(" \n"), "base.json: the file is empty");
  EXPECT_EQ(refusal("# a page"), "base.json: no JSON at byte 1");
  EXPECT_EQ(refusal(document().dump() + "x"),
            fmt::format("base.json: no JSON at byte {}", document().dump().size() + 1));
  for (const char* other :
       {"[]", "1", "null", "{}", R"({"models": []})", R"({"format": "another"})", R"({"format": 1})"}) {
    EXPECT_NE(refusal(other).find("base.json: expected what `sparkpilot bench --json` writes"), std::string::npos)
        << other;
  }
  // What prints or copies it would recurse until the stack ends.
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  EXPECT_EQ(refusal(R"({"format":"sparkpilot bench","format_version":)" + deep + "}"),
            "base.json: nested deeper than 64");
  Json newer = document();
  newer["format_version"] = 2;
  EXPECT_EQ(refusal(newer.dump()), "base.json: /format_version: expected 1, got 2");
  const TempFolder folder;
  EXPECT_THROW(read_baseline(folder / "none.json"), Error);
  EXPECT_THROW(read_baseline(folder.path()), Error);
  write_text(folder / "half.json", "{\"format\"");
  try {
    read_baseline(folder / "half.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(folder.file("half.json") + ": the file is cut short"), std::string::npos);
  }
}

// Each key that is read, missing and with values that it cannot have.
TEST(Baseline, HostileValuesAreRefusedWithTheirPlace) {
  using Pointer = Json::json_pointer;
  for (const char* place : {"/format_version",
                            "/machine",
                            "/versions",
                            "/models",
                            "/models/0/file",
                            "/models/0/file_fnv1a_64",
                            "/models/0/precision",
                            "/models/0/threads",
                            "/models/0/batch",
                            "/models/0/settings",
                            "/models/0/choices",
                            "/models/0/choices/1/node",
                            "/models/0/choices/1/kernel",
                            "/models/0/repeats",
                            "/models/0/repeats/yardstick",
                            "/models/0/repeats/yardstick/version",
                            "/models/0/repeats/yardstick/code",
                            "/models/0/repeats/processes",
                            "/models/0/repeats/processes/1/model_ms",
                            "/models/0/repeats/processes/1/near_ms"}) {
    const Pointer at(place);
    Json missing = document();
    missing[at.parent_pointer()].erase(at.back());
    const std::string message = refusal(missing.dump());
    EXPECT_NE(message, "accepted") << place;
    EXPECT_TRUE(message.starts_with("base.json: ")) << message;
    for (const char* value : {"null", "true", "-1", "1.5", R"("\u001b[31m")", "[]", "{}", "[[[[1]]]]", "1e300"}) {
      Json bad = document();
      bad[at] = Json::parse(value);
      const std::string text = refusal(bad.dump());
      if (text == "accepted") {  // where a text or a list may be anything
        EXPECT_TRUE(bad[at].is_string() || bad[at].empty()) << place << " " << value;
        continue;
      }
      EXPECT_TRUE(text.starts_with("base.json: ")) << text;
      EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
  EXPECT_EQ(refusal(R"({"format": "sparkpilot bench", "format_version": 1e999})"),
            "base.json: a number that is too large");
  EXPECT_NE(refusal(R"({"format": NaN})").find("base.json: no JSON at byte"), std::string::npos);
  const std::string deep(100'000, '[');
  EXPECT_NE(refusal("[[").find("cut short"), std::string::npos);
  EXPECT_NE(refusal(deep + std::string(100'000, ']')).find("nested deeper than 64"), std::string::npos);
  EXPECT_NE(refusal("{\"format\": \"\xff\"}").find("base.json: "), std::string::npos);
  Json without = document();
  without["models"][0].erase("repeats");
  EXPECT_NE(refusal(without.dump()).find("/models/0 has no repeats"), std::string::npos);
}

TEST(Baseline, EveryDifferenceOfTheMachineIsNamed) {
  const Baseline baseline = parse_baseline(document().dump(), "base.json");
  const auto lines = [&](const char* key, const Json& value) {
    Json here = machine();
    here[key] = value;
    return machine_differences(baseline, here);
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines("processor", "B"), Lines{R"(processor: expected "A", got "B")"});
  EXPECT_EQ(lines("system", "DGX"), Lines{R"(system: expected null, got "DGX")"});
  EXPECT_EQ(lines("architecture", "aarch64"), Lines{R"(architecture: expected "x86_64", got "aarch64")"});
  EXPECT_EQ(lines("instruction_sets", {"avx2", "avx512"}),
            Lines{R"(instruction_sets: expected ["avx2"], got ["avx2","avx512"])"});
  EXPECT_EQ(lines("logical_processors", 4), Lines{"logical_processors: expected 8, got 4"});
  EXPECT_EQ(lines("gpu_driver", "580"), Lines{R"(gpu_driver: expected null, got "580")"});
  EXPECT_EQ(lines("gpus", Json::array({{{"name", "G"}}})).size(), 1u);
  EXPECT_EQ(lines("memory_bytes", 15'500'000'000), Lines{}) << "what a kernel keeps for itself";
  EXPECT_EQ(lines("memory_bytes", 32'000'000'000).size(), 1u);
  EXPECT_EQ(lines("memory_bytes", nullptr).size(), 1u);
  EXPECT_EQ(lines("kernel", "6.8"), Lines{});
  Json here = machine();
  here["kernel"] = "6.8";
  Json other = versions();
  other["sparkpilot"] = "0.2.0";
  EXPECT_EQ(machine_notes(baseline, here, other), (Lines{R"(kernel: "6.1" in the baseline, "6.8" now)",
                                                         R"(sparkpilot: "0.1.0" in the baseline, "0.2.0" now)"}));
}

TEST(Baseline, EveryDifferenceOfTheModelIsNamed) {
  Json two = document();
  two["models"].push_back(two["models"][0]);
  two["models"][1]["precision"] = "bf16";
  two["models"][1]["file_fnv1a_64"] = "00000000000000bb";
  const Baseline baseline = parse_baseline(two.dump(), "base.json");
  using Lines = std::vector<std::string>;
  BenchSubject other = subject();
  other.precision = "bf16";
  other.batch = 4;
  EXPECT_EQ(find_model(baseline, other).differences,
            (Lines{R"(precision: expected "fp32", got "bf16")", "batch: expected 1, got 4"}))
      << "of the same file";
  other = subject();
  other.threads = 1;
  EXPECT_EQ(find_model(baseline, other).differences, Lines{"threads: expected 2, got 1"});
  other.threads = std::nullopt;
  EXPECT_TRUE(find_model(baseline, other).differences.empty()) << "the baseline's number is taken";
  other = subject();
  other.fnv1a_64 = "00000000000000cc";
  EXPECT_EQ(find_model(baseline, other).differences,
            Lines{R"(model: expected "model.onnx" (FNV-1a "00000000000000aa"), got "new.onnx" ("00000000000000cc"))"});
  other = subject();
  other.settings["passes_off"] = R"(["fold"])";
  other.settings["shapes"] = R"({"x":"[1]"})";
  EXPECT_EQ(find_model(baseline, other).differences,
            (Lines{R"(passes_off: expected [], got ["fold"])", R"(shapes: expected {}, got {"x":"[1]"})"}));
  other = subject();
  other.fnv1a_64 = "00000000000000bb";
  other.precision = "bf16";
  EXPECT_EQ(find_model(baseline, other).model, &baseline.models[1]);

  Json yardstick = document();
  yardstick["models"][0]["repeats"]["yardstick"] = {{"version", 7}, {"code", "other"}};
  EXPECT_EQ(find_model(parse_baseline(yardstick.dump(), "base.json"), subject()).differences,
            (Lines{fmt::format("yardstick version: expected 7, got {}", kYardstickVersion),
                   fmt::format("yardstick: expected \"other\", got \"{}\"", Yardstick::code())}));
}

TEST(Baseline, OtherKernelsAreNamed) {
  const Baseline baseline = parse_baseline(document().dump(), "base.json");
  BenchSubject now = subject();
  now.settings["tune"] = R"("full")";
  const std::vector<KernelDecision> choices{{.node = "Conv 3x3", .kernel = "simd"},
                                            {.node = "Conv 5x5", .kernel = "simd"},
                                            {.node = "Add", .kernel = "simd"}};
  using Lines = std::vector<std::string>;
  EXPECT_EQ(choice_notes(baseline.models[0], now, choices),
            (Lines{R"(tune: "auto" in the baseline, "full" now)", R"("Add": not in the baseline (one kind of node))",
                   R"("Conv": kernel "onednn" in the baseline, "simd" now (2 kinds of nodes))",
                   R"("Gemm": only in the baseline (one kind of node))"}));
}

}  // namespace
}  // namespace sparkpilot
