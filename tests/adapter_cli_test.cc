// sparkpilot adapter, and --adapter of the commands that run models.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "adapters/adapter.h"
#include "cli_fixture.h"
#include "model_bytes.h"
#include "sparkpilot/onnx.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace adapter_cli_test {

namespace fs = std::filesystem;

class AdapterCli : public Cli {
 protected:
  // A new adapter in `name`, with numbers that change the model.
  std::string trained(const std::string& name, const std::string& flags = "--rank 2",
                      const std::string& model = policy()) {
    const std::string out = folder.file(name);
    const ProgramResult result = run_program("adapter create " + model + " --quiet --out '" + out + "' " + flags);
    EXPECT_EQ(result.code, 0) << result.err;
    Adapter adapter = load_adapter(out);
    float at = 0;
    for (AdapterLayer& layer : adapter.layers) {
      for (float& b : layer.b.data<float>()) b = 0.05f * std::sin(at += 1);
    }
    save_adapter(adapter, out);
    return "'" + out + "'";
  }
  // The largest relative L2 error of the outputs of two models, in fp32.
  static double apart(const std::string& a, const std::string& b) {
    double worst = 0;
    const json compared = parsed("compare " + a + " " + b + " --no-time --no-layers --precision fp32");
    for (const json& variant : compared["variants"]) {
      for (const json& output : variant["outputs"]) worst = std::max(worst, output["relative_l2"].get<double>());
    }
    return worst;
  }
};

TEST_F(AdapterCli, CreatesWithinOnePercentOfTheModel) {
  const std::string out = folder.file("a");
  const json made = parsed("adapter create " + policy() + " --out '" + out + "' --max-size 3% --tag car=CIVIC");
  EXPECT_EQ(keys(made), Keys({"kind", "stored", "bytes", "base", "base_fingerprint", "tags", "layers", "folder",
                              "share_of_base", "skipped"}));
  EXPECT_EQ(made["kind"], "DoRA");
  EXPECT_EQ(made["stored"], "fp16");  // as the model
  EXPECT_LE(made["share_of_base"].get<double>(), 0.03);
  EXPECT_EQ(made["tags"]["car"], "CIVIC");
  EXPECT_GT(made["layers"].size(), 3u);
  const json told = parsed("adapter info '" + out + "' --model " + policy());
  EXPECT_EQ(told["bytes"], made["bytes"]);
  EXPECT_EQ(told["fits"], true);
  EXPECT_EQ(told["tags"], made["tags"]);
  // The default, which no layer of so small a model fits: the size that works is named, and works.
  const ProgramResult refused =
      run_program("adapter create " + policy() + " --max-size 0.01% --out '" + folder.file("b") + "'");
  EXPECT_EQ(refused.code, 2);
  const size_t at = refused.err.find("smallest size that works is ");
  ASSERT_NE(at, std::string::npos) << refused.err;
  const std::string bytes = refused.err.substr(at + 28, refused.err.find(' ', at + 28) - at - 28);
  const json least =
      parsed("adapter create " + policy() + " --max-size " + bytes + "B --out '" + folder.file("b") + "'");
  EXPECT_EQ(least["layers"].size(), 1u);
  EXPECT_EQ(std::to_string(least["bytes"].get<int64_t>()), bytes);
  // What may be trained is not replaced.
  const std::string before = read_text(out + "/adapter_model.safetensors");
  const ProgramResult again = run_program("adapter create " + policy() + " --out '" + out + "' --seed 7");
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("there is an adapter already"), std::string::npos) << again.err;
  EXPECT_EQ(read_text(out + "/adapter_model.safetensors"), before);
}

TEST_F(AdapterCli, TakesOnePercentWithoutASize) {
  const json made = parsed("adapter create " + policy() + " --out '" + folder.file("a") + "'");
  EXPECT_LE(made["share_of_base"].get<double>(), 0.01);
  EXPECT_GT(made["share_of_base"].get<double>(), 0.005);
  const ProgramResult large =
      run_program("adapter create " + policy() + " --rank 999 --out '" + folder.file("b") + "'");
  EXPECT_EQ(large.code, 0) << large.err;
  EXPECT_NE(large.err.find("the adapter is larger than the model: "), std::string::npos) << large.err;
}

// A gain that makes every rounding of the product a difference.
TEST_F(AdapterCli, AMergeThatDiffersFailsItsCheck) {
  std::vector<float> numbers;
  for (int i = 0; i < 64; ++i) numbers.push_back(std::sin(static_cast<float>(i + 1)));
  const auto bytes = [](const std::vector<float>& of) {
    return std::string(reinterpret_cast<const char*>(of.data()), of.size() * sizeof(float));
  };
  const std::string file = folder.file("steep.onnx"), out = folder.file("merged.onnx");
  write_text(file, model({node("MatMul", "product", {"x", "w"}, "p"), node("Mul", "gain", {"p", "k"}, "q"),
                          node("Sin", "wave", {"q"}, "y")},
                         {initializer("w", {8, 8}, bytes(numbers)), initializer("k", {1}, bytes({1e8f}))}, {1, 8}));
  run_program("adapter create '" + file + "' --rank 2 --out '" + folder.file("a") + "'");
  Adapter adapter = load_adapter(folder.file("a"));
  for (float& b : adapter.layers[0].b.data<float>()) b = 0.05f;
  save_adapter(adapter, folder.file("a"));
  const std::string merge = "adapter merge '" + file + "' '" + folder.file("a") + "' --out '" + out + "'";
  const ProgramResult checked = run_program(merge);
  EXPECT_EQ(checked.code, 4) << checked.out << checked.err;
  EXPECT_NE(checked.out.find("differs"), std::string::npos) << checked.out;
  EXPECT_TRUE(fs::exists(out));
  EXPECT_EQ(run_program(merge + " --json").code, 4);
  EXPECT_EQ(run_program(merge + " --no-check").code, 0);
}

TEST_F(AdapterCli, MergesChecksAndTakesOutAgain) {
  const std::string adapter = trained("a"), merged = "'" + folder.file("merged.onnx") + "'";
  const json check = parsed("adapter merge " + policy() + " " + adapter + " --out " + merged);
  ASSERT_EQ(check["outputs"].size(), 1u);
  EXPECT_TRUE(check["outputs"][0]["equal"].get<bool>()) << check.dump();
  EXPECT_GT(check["outputs"][0]["change_relative_l2"].get<double>(), 1e-3);
  EXPECT_GT(apart(policy(), merged), 1e-3);
  // The same by --adapter and by name, without a file.
  const std::string name = "'" + models->file("tiny_driving_policy.onnx") + "@" + folder.file("a") + "'";
  EXPECT_EQ(apart(merged, name), 0);
  const json beside = parsed("compare " + policy() + " --adapter " + adapter + " --no-time --no-layers");
  EXPECT_EQ(beside["variants"].size(), 2u);
  EXPECT_GT(beside["variants"][1]["outputs"][0]["relative_l2"].get<double>(), 1e-3);
  const json run = parsed("run " + policy() + " --adapter " + adapter), plain = parsed("run " + merged);
  EXPECT_EQ(run["outputs"], plain["outputs"]);
  // Out again: f16 keeps about three digits.
  const std::string base = "'" + folder.file("base.onnx") + "'";
  parsed("adapter unmerge " + merged + " " + adapter + " --out " + base);
  EXPECT_LT(apart(policy(), base), 2e-3);
  expect_usage_error("adapter unmerge " + policy() + " " + adapter + " --out " + base, "names no adapter");
}

// What a run of a file does: each node's kernel, its work and the bytes that it reads and writes, in order.
std::vector<std::string> work_of(const std::string& file) {
  Session session(load_onnx(file), {.threads = 1, .tune = Tune::off, .profile = true});
  session.run();
  std::vector<std::string> out;
  for (const NodeProfile& node : session.profile().nodes) {
    out.push_back(fmt::format("{} {} {} {} {} flops {} bytes, {} of weights", node.name, node.op, node.kernel,
                              node.shape, node.flops, node.bytes, node.weight_bytes));
  }
  return out;
}

// A merged model is as fast as its base, as it is the same plan with other numbers.
TEST_F(AdapterCli, AMergedModelDoesTheWorkOfItsBase) {
  for (const std::string name : {"tiny_driving_policy", "tiny_driving_vision"}) {
    const std::string base = models->file(name + ".onnx"), merged = folder.file(name + ".onnx");
    const std::string adapter = trained(name, "--rank 2", "'" + base + "'");
    parsed("adapter merge '" + base + "' " + adapter + " --no-check --out '" + merged + "'");
    const std::vector<std::string> expected = work_of(base);
    EXPECT_GT(expected.size(), 10u);
    EXPECT_EQ(work_of(merged), expected) << name;
  }
}

TEST_F(AdapterCli, MergesAModelWithOpenDimensions) {
  const std::vector<float> ones(64, 1.0f);
  const std::string weights(reinterpret_cast<const char*>(ones.data()), ones.size() * sizeof(float));
  const std::string file = folder.file("open.onnx"), adapter = folder.file("open"), out = folder.file("merged.onnx");
  write_text(file, model({node("MatMul", "product", {"x", "w"}, "y")}, {initializer("w", {8, 8}, weights)}, {-2, -2}));
  parsed("adapter create '" + file + "' --rank 1 --out '" + adapter + "'");
  const std::string merge = "adapter merge '" + file + "' '" + adapter + "' --out '" + out + "'";
  expect_usage_error(merge, "MatMul");  // an open dimension becomes 1, and the product needs 8
  EXPECT_EQ(parsed(merge + " --shape x=3x8")["outputs"].size(), 1u);
  expect_usage_error(merge + " --shape x=8", "open.onnx: input \"x\" is [?, ?], the shape given for it [8]");
}

TEST_F(AdapterCli, ScalesAndAdds) {
  const std::string a = trained("a"), merged = "'" + folder.file("merged.onnx") + "'";
  const std::string full = "'" + models->file("tiny_driving_policy.onnx") + "@" + folder.file("a");
  EXPECT_EQ(apart(policy(), full + ":0'"), 0);
  EXPECT_LT(apart(policy(), full + ":0.5'"), apart(policy(), full + "'"));
  const ProgramResult both =
      run_program("adapter merge " + policy() + " '" + folder.file("a") + ":0.5' " + a + " --out " + merged);
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.err.find("adapters of one base are added up"), std::string::npos) << both.err;
  EXPECT_NE(both.err.find("the merged model is not checked"), std::string::npos) << both.err;
  const ProgramResult alone =
      run_program("adapter merge " + policy() + " '" + folder.file("a") + ":0.5' --out " + merged);
  EXPECT_NE(alone.err.find("the merged model is not checked"), std::string::npos) << alone.err;
}

TEST_F(AdapterCli, ComparesTwo) {
  const std::string a = trained("a"), b = trained("b", "--rank 3 --lora --target '.*fc.*'");
  const json rows = parsed("adapter diff " + policy() + " " + a + " " + b);
  bool both = false, alone = false;
  for (const json& row : rows["layers"]) {
    both |= row["rank_a"] == 2 && row["rank_b"] == 3;
    alone |= row["rank_b"] == 0 && row["change_b"] == 0;
  }
  EXPECT_TRUE(both);
  EXPECT_TRUE(alone);
}

TEST_F(AdapterCli, RefusesInOneLine) {
  const std::string out = " --out '" + folder.file("x") + "'", adapter = trained("a");
  const std::string vision = "'" + models->file("tiny_driving_vision.onnx") + "'";
  expect_usage_error("adapter create " + policy() + out + " --lora --dora", "give one of");
  expect_usage_error("adapter create " + policy() + out + " --rank 2 --max-size 1%", "--max-size has no effect");
  expect_usage_error("adapter create " + policy() + out + " --max-size 1potato", "--max-size 1potato");
  expect_usage_error("adapter create " + policy() + out + " --max-size -1%", "--max-size");
  expect_usage_error("adapter create " + policy() + out + " --rank -1", "--rank -1");
  expect_usage_error("adapter create " + policy() + out + " --rank 2 --alpha -1", "--alpha");
  expect_usage_error("adapter create " + policy() + out + " --rank 2 --target nothing", "no layer's path matches");
  expect_usage_error("adapter create " + policy() + out + " --rank 2 --tag car", "--tag");
  expect_usage_error("adapter create " + policy() + out + " --rank 2 --tag car=A --tag car=B",
                     "--tag car: given twice");
  expect_usage_error("adapter create /dev/null" + out, "/dev/null");
  expect_usage_error("adapter info " + adapter + " --model " + vision, "made for another model");
  expect_usage_error("adapter info '" + folder.file("nowhere") + "'", "adapter_config.json");
  expect_usage_error("adapter merge " + vision + " " + adapter + out, "made for another model");
  expect_usage_error("adapter merge " + policy() + " " + adapter + " --out " + policy(), "tiny_driving_policy.onnx");
  expect_usage_error("run " + vision + " --adapter " + adapter, "made for another model");
  expect_usage_error("compare " + policy() + " " + vision + " --adapter " + adapter, "--adapter takes one model");
  expect_usage_error("run " + policy() + " --adapter '" + folder.file("a") + ":nan'", "finite");
  expect_usage_error("bench " + policy() + " --adapter '" + folder.file("nowhere") + "'",
                     "nowhere/adapter_config.json");
  // An adapter that was cut short.
  fs::resize_file(folder.path() / "a/adapter_model.safetensors", 100);
  expect_usage_error("adapter info " + adapter, "adapter_model.safetensors");
}

TEST_F(AdapterCli, DrivesWithTheNetworkItFits) {
  const std::string adapter = trained("a");
  const std::string route = folder.file("route");
  ASSERT_EQ(run_program("route synth --quiet --seconds 1 --out '" + route + "'").code, 0);
  const std::string segments = "'" + fs::directory_iterator(route)->path().string() + "'";
  const auto drive = [&](const std::string& flags, const std::string& out) {
    return run_program("drive " + segments + " --models '" + models->path().string() +
                       "' --no-overlay --quiet --limit 4 --out '" + folder.file(out) + "' " + flags);
  };
  EXPECT_EQ(drive("", "base").code, 0);
  const ProgramResult with = drive("--adapter " + adapter, "with");
  EXPECT_EQ(with.code, 0) << with.err;
  const ProgramResult compared =
      run_program("compare '" + folder.file("base") + "' '" + folder.file("with") + "' --max-plan-error 1e-6");
  EXPECT_EQ(compared.code, 4) << compared.err;  // the plan changed
  // --resume knows that it is another model.
  EXPECT_NE(drive("--resume --adapter '" + folder.file("a") + ":0.5'", "with").err, "");
  const ProgramResult none =
      run_program("drive " + segments + " --models '" + models->path().string() + "' --limit 1 --out '" +
                  folder.file("none") + "' --adapter '" + folder.file("a2") + "'");
  EXPECT_EQ(none.code, 2);
  expect_usage_error("drive " + segments + " --from-log --adapter " + adapter + " --out '" + folder.file("log") + "'",
                     "--adapter has no effect");
  fs::copy(folder.file("a"), folder.file("stranger"));
  std::string config = read_text(folder.file("stranger") + "/adapter_config.json");
  const size_t at = config.find("base_fingerprint\": \"") + 20;
  config[at] = config[at] == '0' ? '1' : '0';
  write_text(folder.file("stranger") + "/adapter_config.json", config);
  EXPECT_NE(drive("--adapter '" + folder.file("stranger") + "'", "other").err.find("made for none of"),
            std::string::npos);
}

}  // namespace adapter_cli_test
}  // namespace sparkpilot
