// The program's contract: exit codes, what goes to stdout and stderr, the shape of its JSON.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "cli_fixture.h"
#include "model_bytes.h"
#include "onnx/export.h"
#include "sparkpilot/builder.h"
#include "stack/test_zip.h"
#include "tensor/npy.h"

namespace sparkpilot {
namespace cli_test {
namespace fs = std::filesystem;

TEST_F(Cli, Version) {
  EXPECT_EQ(keys(parsed("version")),
            (Keys{"version", "compiler", "newest_opset", "processor", "isa", "processors", "gpu_code"}));
  EXPECT_NE(run_program("version").out.find("sparkpilot "), std::string::npos);
}

TEST_F(Cli, ReportsAreFreeOfColourWhereNobodyLooks) {
  for (const char* command : {"ops list", "zoo list", "run --passes list"}) {
    EXPECT_EQ(run_program(command).out.find('\x1b'), std::string::npos) << command;
  }
}

TEST_F(Cli, ZooListsAndBuilds) {
  const json list = parsed("zoo list");
  ASSERT_EQ(list["models"].size(), 17u);
  EXPECT_EQ(keys(list["models"][0]), (Keys{"name", "parameters", "macs", "contract", "doc", "big"}));
  const json built = parsed("zoo build tiny_driving_policy --seed 2 --out '" + folder.file("new/folder") + "'");
  EXPECT_EQ(keys(built["models"][0]), (Keys{"name", "file", "file_bytes", "seed"}));
  EXPECT_TRUE(fs::exists(folder.file("new/folder/tiny_driving_policy.onnx")));
  EXPECT_NE(read_text(folder.file("new/folder/tiny_driving_policy.onnx")),
            read_text(models->file("tiny_driving_policy.onnx")));
}

TEST_F(Cli, ModelInfo) {
  const json info = parsed("model info " + policy());
  EXPECT_EQ(keys(info), (Keys{"file", "file_bytes", "graph", "producer", "opsets", "inputs", "outputs", "parameters",
                              "weight_bytes", "flops", "macs", "nodes_without_known_shape", "nodes", "ops", "metadata",
                              "output_slices"}));
  EXPECT_EQ(info["inputs"][0], json::parse(R"({"name": "features_buffer", "dtype": "f32", "shape": [1, 25, 512]})"));
  EXPECT_EQ(info["output_slices"]["plan"], json::parse("[0, 990]"));
  EXPECT_EQ(info["output_slices"]["pad"], json::parse("[-2, null]"));
  EXPECT_GT(info["macs"], 1000);
  EXPECT_EQ(info["nodes_without_known_shape"], 0);
  EXPECT_NE(run_program("model info " + policy()).out.find("desire_state 990:998"), std::string::npos);
}

TEST_F(Cli, ModelCheck) {
  const json check = parsed("model check " + policy());
  EXPECT_EQ(keys(check), (Keys{"file", "passed", "tolerance", "outputs"}));
  EXPECT_EQ(keys(check["outputs"][0]),
            (Keys{"name", "not_finite", "relative_l2", "rounding_relative_l2", "passed", "outcome"}));
  EXPECT_EQ(check["outputs"][0]["outcome"], "passed");
  EXPECT_EQ(check["passed"], true);
  EXPECT_EQ(parsed("model check --precision fp16 " + policy())["tolerance"], 1e-2);
  expect_usage_error("model check " + policy() + " --tolerance -1", "tolerance: expected 0 or more");
  expect_usage_error("model check " + policy() + " --tolerance nan", "tolerance: expected 0 or more");
  EXPECT_TRUE(parsed("model check --quick " + policy())["outputs"][0]["relative_l2"].is_null());
}

// Open dimensions without a name, in every command that reads a model.
TEST_F(Cli, ShapesOfInputsWithOpenDimensions) {
  const std::string file = folder.file("open.onnx"), out = folder.file("fixed.onnx"), shape = " --shape x=2x5";
  write_text(file, model({node("Relu", "relu", {"x"}, "y")}, {}, {-2, -2}));
  const json wanted = {2, 5};
  EXPECT_EQ(parsed("model info '" + file + "'")["inputs"][0]["shape"], json::parse("[null, null]"));
  EXPECT_EQ(parsed("model info '" + file + "'" + shape)["inputs"][0]["shape"], wanted);
  EXPECT_EQ(parsed("run '" + file + "'" + shape)["outputs"][0]["shape"], wanted);
  EXPECT_EQ(parsed("model check '" + file + "'" + shape)["passed"], true);
  EXPECT_EQ(run_program("model check '" + file + "'" + shape).err, "");  // no size had to be assumed
  EXPECT_EQ(parsed("bench --repeats 0 --runs 1 --warmup 0 '" + file + "'" + shape)["models"].size(), 1u);
  parsed("model convert '" + file + "' --out '" + out + "'" + shape);
  EXPECT_EQ(parsed("model info '" + out + "'")["inputs"][0]["shape"], wanted);
  for (const std::string& command :
       {"model info '" + file + "'", "run '" + file + "'", "bench '" + file + "'", "model check '" + file + "'",
        "model convert '" + file + "' --out '" + folder.file("none.onnx") + "'",
        "model quantize --int8 '" + file + "' '" + folder.file("none.onnx") + "' --calibrate x.npy"}) {
    expect_usage_error(command + " --shape x=2", "open.onnx: input \"x\" is [?, ?], the shape given for it [2]");
  }
  expect_usage_error("bench --batch 4 '" + file + "'" + shape, "no input has an open first dimension");
  expect_usage_error("model quantize --int8 '" + file + "' '" + out + "' --calibrate x.npy",
                     "input \"x\" has open dimensions, [?, ?]: fix them with --dim or --shape");
}

// The numbers of threads that are tried, and the lanes of a batch, share one optimised graph.
TEST_F(Cli, AGraphIsOptimisedOnce) {
  const auto passes = [&](const std::string& flags) {
    std::istringstream lines(run_program("run " + policy() + " -v" + flags).err);
    std::map<std::string, int> count;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("pass ")) ++count[line.substr(0, line.find(':'))];
    }
    return count;
  };
  const std::map<std::string, int> once = passes(" --threads 1");
  EXPECT_GT(once.size(), 3u);
  for (const auto& [pass, times] : once) EXPECT_EQ(times, 1) << pass;
  EXPECT_EQ(passes(" --threads auto"), once);
}

TEST_F(Cli, ModelConvert) {
  const std::string out = folder.file("converted.onnx");
  EXPECT_EQ(keys(parsed("model convert " + policy() + " --simplify --opset 21 --output 'outputs[:, 0:990]' --out '" +
                        out + "'")),
            (Keys{"file", "file_bytes"}));
  const json info = parsed("model info '" + out + "'");
  EXPECT_EQ(info["opsets"]["ai.onnx"], 21);
  EXPECT_EQ(info["output_slices"], json::parse(R"({"plan": [0, 990]})"));
  const json run = parsed("run '" + out + "' --seed 3");
  EXPECT_EQ(run["outputs"][0]["shape"], json::parse("[1, 990]"));
  EXPECT_EQ(run_program("model convert " + policy() + " --opset 99 --out '" + folder.file("no.onnx") + "'").code, 2);
  EXPECT_FALSE(fs::exists(folder.file("no.onnx")));
}

TEST_F(Cli, ModelQuantize) {
  const std::string out = folder.file("int8.onnx");
  const auto samples = [&](const std::string& input, const Shape& shape) {
    Tensor t = Tensor::zeros(DType::f32, shape);
    for (int64_t i = 0; i < t.elements(); ++i)
      t.data<float>()[static_cast<size_t>(i)] = std::sin(static_cast<float>(i));
    save_npy(folder.file(input + ".npy"), t.view());
    return " --calibrate " + input + "='" + folder.file(input + ".npy") + "'";
  };
  const std::string command = "model quantize --int8 " + policy() + " '" + out + "'";
  const std::string features = samples("features_buffer", {3, 25, 512}), desire = samples("desire_pulse", {3, 25, 8});
  const json report = parsed(command + features + desire + samples("traffic_convention", {1, 2}));
  EXPECT_EQ(keys(report), (Keys{"file", "file_bytes", "opset", "method", "samples", "compared", "products",
                                "products_int8", "kept_in_floats", "outputs", "activations"}));
  EXPECT_EQ(report["samples"], 3);
  EXPECT_GT(report["products_int8"], 0);
  EXPECT_EQ(report["outputs"][0]["name"], "outputs");
  EXPECT_LT(report["outputs"][0]["relative_l2"], 0.2);
  EXPECT_EQ(run_program("model check '" + out + "'").code, 0);
  std::filesystem::remove(out);
  expect_usage_error(command + features + desire, "no samples of input \"traffic_convention\"");
  expect_usage_error(command + " --calibrate '" + folder.file("desire_pulse.npy") + "'", "the model has 3 inputs");
  expect_usage_error(command + " --calibrate '" + folder.file("none.npy") + "'", "none.npy: No such file");
  expect_usage_error(command + " --method best --calibrate x", "best");
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Cli, ModelQuantizeStoresWeightsInEightAndFourBits) {
  const std::string out = folder.file("small.onnx");
  const auto report_of = [&](const std::string& flags) {
    fs::remove(out);
    return parsed("model quantize " + policy() + " '" + out + "' " + flags);
  };
  const json eight = report_of("--fp8"), four = report_of("--fp4");
  EXPECT_EQ(keys(four),
            (Keys{"file", "file_bytes", "opset", "weight_bytes", "kept_weight_bytes", "samples", "compared",
                  "worst_sample_relative_l2", "likely_worst_relative_l2", "independent_samples", "outputs", "layers"}));
  EXPECT_EQ(eight["opset"], 19);
  EXPECT_EQ(four["opset"], 23);
  EXPECT_LT(four["weight_bytes"], eight["weight_bytes"]);
  EXPECT_LT(eight["weight_bytes"], eight["kept_weight_bytes"]);
  EXPECT_GT(four["outputs"][0]["relative_l2"], eight["outputs"][0]["relative_l2"]);
  EXPECT_GT(eight["outputs"][0]["relative_l2"], 0);
  // The file is what the precision computes.
  const auto outputs_of = [&](const std::string& model, const std::string& to) {
    EXPECT_EQ(run_program("run --quiet " + model + " --seed 4 --output-dir '" + folder.file(to) + "'").code, 0);
    return read_text(folder.file(to + "/outputs.npy"));
  };
  const std::string written = outputs_of("'" + out + "'", "file");
  EXPECT_TRUE(written == outputs_of(policy() + " --precision fp4", "mode"));
  EXPECT_FALSE(written == outputs_of(policy(), "fp32"));
  EXPECT_EQ(run_program("model check '" + out + "'").code, 0);

  const json target = report_of("--fp4 --target-error 0.02");
  EXPECT_LE(target["outputs"][0]["relative_l2"], 0.02);
  EXPECT_LT(target["weight_bytes"], target["kept_weight_bytes"]);
  EXPECT_GT(target["weight_bytes"], four["weight_bytes"]);
  EXPECT_TRUE(target["layers"][0].contains("alone_in_fp8_relative_l2"));
  EXPECT_LE(target["likely_worst_relative_l2"], 0.02);
  EXPECT_GT(target["likely_worst_relative_l2"], target["worst_sample_relative_l2"]);
  EXPECT_EQ(target["independent_samples"], 8);
  const int64_t budget = eight["weight_bytes"].get<int64_t>() * 3 / 2;
  const json within = report_of("--fp4 --budget " + std::to_string(budget));
  EXPECT_LE(within["weight_bytes"], budget);
  EXPECT_LT(within["outputs"][0]["relative_l2"], four["outputs"][0]["relative_l2"]);

  fs::remove(out);
  const std::string command = "model quantize --quiet " + policy() + " '" + out + "' ";
  expect_usage_error(command, "one of --int8, --fp8 and --fp4");
  expect_usage_error(command + "--fp8 --fp4", "one of --int8, --fp8 and --fp4");
  expect_usage_error(command + "--int8", "--calibrate is missing");
  expect_usage_error(command + "--fp8 --method entropy", "--method and --percentile are for --int8");
  expect_usage_error(command + "--fp4 --budget 1K", "more than the budget of 1000");
  expect_usage_error(command + "--fp4 --budget 1K --target-error 1", "give one of them");
  expect_usage_error(command + "--fp8 --target-plan-error 1", "a plan on random inputs means nothing");
  expect_usage_error("model quantize --quiet '" + models->file("tiny_driving_vision.onnx") + "' '" + out +
                         "' --fp8 --target-plan-error 1 --route x",
                     "it has no plan");
  expect_usage_error(command + "--fp8 --target-error 1e-12", "leaves no weights");
  expect_usage_error(command + "--fp8 --exclude nothing", "no node and no op is named \"nothing\"");
  expect_usage_error(command + "--fp8 --exclude MatMul --exclude Gemm --exclude Conv", "to store");
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Cli, ModelCalibrate) {
  const std::string out = folder.file("calibration.json");
  const auto samples = [&](const std::string& input, const Shape& shape, float scale) {
    Tensor t = Tensor::zeros(DType::f32, shape);
    for (int64_t i = 0; i < t.elements(); ++i)
      t.data<float>()[static_cast<size_t>(i)] = scale * std::sin(static_cast<float>(i));
    save_npy(folder.file(input + ".npy"), t.view());
    return " --samples " + input + "='" + folder.file(input + ".npy") + "'";
  };
  const std::string command = "model calibrate " + policy() + " --out '" + out + "'";
  const std::string others = samples("desire_pulse", {3, 25, 8}, 1) + samples("traffic_convention", {1, 2}, 1);
  const json report = parsed(command + samples("features_buffer", {3, 25, 512}, 5) + others);
  EXPECT_EQ(keys(report), (Keys{"file", "model_fnv1a_64", "samples", "tensors", "left_out"}));
  EXPECT_TRUE(report["left_out"].empty());
  EXPECT_EQ(report["samples"], 3);
  EXPECT_GT(report["tensors"], 5);
  const json written = json::parse(read_text(out));
  EXPECT_EQ(written["largest_magnitude"].size(), report["tensors"]);
  for (const auto& [name, largest] : written["largest_magnitude"].items()) EXPECT_GT(largest, 0) << name;

  const auto results = [&](const std::string& flags) {
    const std::string to = folder.file("results");
    EXPECT_EQ(run_program("run --quiet " + policy() + " --output-dir '" + to + "' " + flags).code, 0) << flags;
    return read_text(to + "/outputs.npy");
  };
  const std::string with = " --calibration '" + out + "'";
  const std::string plain = results("--precision fp8"), calibrated = results("--precision fp8" + with);
  EXPECT_FALSE(plain == calibrated);
  EXPECT_TRUE(calibrated == results("--precision fp8 --threads 1" + with));
  // So does a file that is written with it.
  const std::string rounded = folder.file("rounded.onnx"), to_file = " " + policy() + " '" + rounded + "'";
  const json stored = parsed("model quantize --fp8" + to_file + with);
  EXPECT_EQ(stored["opset"], 19);
  for (const json& layer : stored["layers"])
    EXPECT_EQ(layer["activations"] == "fp8", layer["format"] == "fp8") << layer["name"];
  EXPECT_EQ(run_program("run --quiet '" + rounded + "' --output-dir '" + folder.file("of_file") + "'").code, 0);
  EXPECT_TRUE(read_text(folder.file("of_file/outputs.npy")) == calibrated);
  EXPECT_EQ(run_program("model quantize --fp8" + to_file + with).err.find("no activations are rounded"),
            std::string::npos);
  expect_usage_error("model quantize --quiet --fp4" + to_file + with, "--calibration is for --fp8");
  expect_usage_error("model quantize --quiet --int8" + to_file + with, "--calibration is for --fp8; int8 takes");
  expect_usage_error("model quantize --quiet --fp8 " + policy() + " '" + out + "'" + with,
                     "is read and would be replaced");
  std::string inputs;
  for (const char* input : {"features_buffer", "desire_pulse", "traffic_convention"}) {
    inputs += fmt::format(" --input {}='{}'", input, folder.file(std::string(input) + ".npy"));
  }
  const json compared = parsed("compare " + policy() + " --no-time --no-layers --precision fp32,fp8" + with + inputs);
  EXPECT_LT(compared["variants"][1]["outputs"][0]["relative_l2"], 0.25);

  const std::string four = results("--precision fp4");
  EXPECT_FALSE(four == results("--precision fp4 --fp4-activations" + with));
  const json in_four =
      parsed("compare " + policy() + " --no-time --no-layers --precision fp32,fp4 --fp4-activations" + with + inputs);
  EXPECT_LT(in_four["variants"][1]["outputs"][0]["relative_l2"], 0.6);

  expect_usage_error("run " + policy() + with, "--calibration has no effect without --precision fp8");
  expect_usage_error("run --quiet " + policy() + " --precision fp4" + with, "or fp4 with --fp4-activations");
  expect_usage_error("run --quiet " + policy() + " --precision fp4 --fp4-activations", "needs --calibration FILE");
  expect_usage_error("run --quiet " + policy() + " --precision fp8 --fp4-activations" + with,
                     "without --precision fp4");

  // Nobody changed lanes: what reads the desire is not rounded. Pictures of one colour are a fault.
  Graph graph;
  Builder b(graph);
  const auto product = [&](ValueId x, int64_t rows) {
    return b.add("MatMul",
                 {x, b.constant(Tensor::of<float>({rows, 1}, std::vector<float>(static_cast<size_t>(rows), 1)))});
  };
  const ValueId frame = b.input("frame", DType::f32, {1, 2}), desire = b.input("desire", DType::f32, {1, 3});
  b.output(product(b.add("Add", {product(frame, 2), product(desire, 3)}), 1), "y");
  save_onnx(graph, folder.file("two.onnx"));
  const json still = parsed("model calibrate '" + folder.file("two.onnx") + "' --out '" + out + "'" +
                            samples("frame", {2, 2}, 5) + samples("desire", {2, 3}, 0));
  EXPECT_EQ(still["left_out"], json({"desire"}));
  EXPECT_EQ(json::parse(read_text(out))["largest_magnitude"].size(), 1u);
  std::string vision = "model calibrate '" + models->file("tiny_driving_vision.onnx") + "' --out '" + out + "'";
  for (const char* name : {"img", "big_img"}) {
    Tensor picture = Tensor::zeros(DType::u8, Shape{1, 12, 128, 256});
    picture.data<uint8_t>()[0] = name == std::string("big_img");
    save_npy(folder.file(std::string(name) + ".npy"), picture.view());
    vision += fmt::format(" --samples {}='{}'", name, folder.file(std::string(name) + ".npy"));
  }
  expect_usage_error(vision, "the picture \"img\" is 0 everywhere in all of 1 samples");
  expect_usage_error("run --quiet '" + models->file("tiny_driving_vision.onnx") + "' --precision fp8" + with,
                     "was made for a model with the hash");
  expect_usage_error(command + others, "no samples of input \"features_buffer\"");
  expect_usage_error(command + samples("features_buffer", {3, 25, 512}, std::nanf("")) + others,
                     "features_buffer.npy: sample 0 of input \"features_buffer\" holds NaN or infinity");
  expect_usage_error(command + samples("features_buffer", {1, 25, 512}, 0) + samples("desire_pulse", {1, 25, 8}, 0) +
                         samples("traffic_convention", {1, 2}, 0),
                     "every input is the same number everywhere in all of 1 samples: they do not tell a range");
  for (const char* text :
       {"", "[1, 2", "{}", "[]", R"({"model_fnv1a_64": 3, "samples": 1, "largest_magnitude": {}})"}) {
    write_text(out, text);
    expect_usage_error("run --quiet " + policy() + " --precision fp8" + with, "calibration.json: is no calibration");
  }
  for (const char* value : {"-1", "null", "\"x\"", "1e999"}) {
    write_text(out, fmt::format(R"({{"model_fnv1a_64": "0", "samples": 1, "largest_magnitude": {{"a": {}}}}})", value));
    expect_usage_error("run --quiet " + policy() + " --precision fp8" + with, "calibration.json: ");
  }
  const auto calibration = [&](const json& count, const std::string& magnitudes) {
    write_text(out, fmt::format(R"({{"model_fnv1a_64": "{}", "samples": {}, "largest_magnitude": {}}})",
                                written["model_fnv1a_64"].get<std::string>(), count.dump(), magnitudes));
    return "run --quiet " + policy() + " --precision fp8" + with;
  };
  const std::string known = written["largest_magnitude"].items().begin().key();
  for (const json& count : {json(0), json(-3), json(1.5), json("8")}) {
    expect_usage_error(calibration(count, R"({"a": 1})"), "calibration.json: samples is " + count.dump());
  }
  for (const char* magnitudes : {"{}", "[]", "[1, 2]", "3"}) {
    expect_usage_error(calibration(8, magnitudes), "calibration.json: largest_magnitude is ");
  }
  expect_usage_error(calibration(8, R"({"a": 1, "a": 2})"), "calibration.json: \"a\" is there twice");
  expect_usage_error(calibration(8, R"({"a": 1e39})"), "largest_magnitude of \"a\" is 1e+39, expected a number");
  expect_usage_error(calibration(8, R"({"nowhere": 1})"), "largest_magnitude of \"nowhere\": ");
  EXPECT_EQ(run_program(calibration(8, "{\"" + known + "\": 0}")).code, 0) << "of a tensor that was always zero";
}

// Products in a chain, each named after its place; `bad` of them hold NaN. Its samples lie beside it.
class CliProducts : public Cli {
 protected:
  std::string save(const std::string& name, size_t count, size_t bad = 0) {
    constexpr int64_t kSize = 24;
    Graph graph;
    Builder b(graph);
    ValueId x = b.input("x", DType::f32, {1, kSize});
    for (size_t i = 0; i < count; ++i) {
      std::vector<float> weights(kSize * kSize);
      for (size_t at = 0; at < weights.size(); ++at) weights[at] = std::sin(static_cast<float>(at * (i + 3)));
      if (i < bad) weights[7] = std::nanf("");
      x = b.add("MatMul", {x, b.constant(Tensor::of<float>({kSize, kSize}, weights))});
      graph.node(graph.order().back()).name = fmt::format("layer{}", i);
      if (i + 1 < count) x = b.add("Relu", {x});
    }
    b.output(x, "y");
    save_onnx(graph, folder.file(name));
    for (const int64_t samples : {1, 12}) {
      Tensor t = Tensor::zeros(DType::f32, Shape{samples, kSize});
      for (size_t at = 0; at < t.data<float>().size(); ++at)
        t.data<float>()[at] = std::cos(static_cast<float>(at * at));
      save_npy(folder.file(fmt::format("x{}.npy", samples)), t.view());
    }
    return "'" + folder.file(name) + "'";
  }
  std::string samples(int count, const std::string& flag = " --calibrate ") const {
    return flag + "'" + folder.file(fmt::format("x{}.npy", count)) + "'";
  }
};

TEST_F(CliProducts, WithoutBiasesInInt8) {
  const std::string model = save("mlp.onnx", 3), out = folder.file("int8.onnx");
  const std::string command = "model quantize --int8 " + model + " '" + out + "'" + samples(12);
  EXPECT_EQ(parsed(command)["products_int8"], 3);
  EXPECT_EQ(run_program("run --quiet '" + out + "'").code, 0);
  EXPECT_EQ(parsed("compare --quiet --no-time --no-layers --precision fp32,int8 " + model)["variants"].size(), 2u);
  // --target-error is the other name of --max-error.
  const double whole = parsed(command)["outputs"][0]["relative_l2"];
  const json by_max = parsed(command + fmt::format(" --max-error {}", 0.8 * whole));
  EXPECT_FALSE(by_max["kept_in_floats"].empty());
  EXPECT_EQ(parsed(command + fmt::format(" --target-error {}", 0.8 * whole))["kept_in_floats"],
            by_max["kept_in_floats"]);
  expect_usage_error(command + " --max-error 1 --target-error 1", "give one of them");
  expect_usage_error(command + " --budget 1k", "in int8 every weight takes a byte");
  expect_usage_error("run " + model + " --precision int8", "`model quantize --int8` writes a model");
  expect_usage_error("bench " + model + " --precision fp32,int8", "`model quantize --int8` writes a model");
}

TEST_F(CliProducts, LimitsAreAboveZero) {
  const std::string model = save("mlp.onnx", 3), out = folder.file("none.onnx");
  for (const std::string form : {"--int8", "--fp8", "--fp4"}) {
    for (const std::string flag : {"--max-error", "--target-error", "--target-plan-error"}) {
      for (const std::string limit : {"0", "-1", "nan", "inf"}) {
        expect_usage_error(
            fmt::format("model quantize --quiet {} {} '{}'{} {}={}", form, model, out, samples(12), flag, limit),
            flag + " " + limit + ": expected more than 0");
      }
    }
  }
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(CliProducts, FewSamplesAreTold) {
  const std::string model = save("mlp.onnx", 3), to = " '" + folder.file("out") + "'";
  const auto said = [&](const std::string& command) {
    const ProgramResult result = run_program(command);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  for (const std::string& command :
       {"model calibrate " + model + " --out" + to + samples(1, " --samples "),
        "model quantize --int8 " + model + to + samples(1), "model quantize --fp8 " + model + to + samples(1)}) {
    EXPECT_NE(said(command).find("few samples (1)"), std::string::npos) << command;
    EXPECT_EQ(said(command + " --quiet").find("few"), std::string::npos) << command;
  }
  EXPECT_EQ(said("model calibrate " + model + " --out" + to + samples(12, " --samples ")).find("few"),
            std::string::npos);
  EXPECT_EQ(said("model quantize --fp8 " + model + to + samples(12)).find("few"), std::string::npos);
}

TEST_F(CliProducts, NotesSayWhatIsRounded) {
  const auto said = [&](const std::string& command) { return run_program(command).err; };
  const std::string rounded = "weights are rounded to E4M3", to = " '" + folder.file("out.onnx") + "'";
  EXPECT_NE(said("run " + save("mlp.onnx", 3) + " --precision fp8").find(rounded), std::string::npos);
  const std::string head = said("run " + save("head.onnx", 1) + " --precision fp8");
  EXPECT_NE(head.find("precision fp8: no weights are rounded"), std::string::npos) << head;
  EXPECT_EQ(head.find(rounded), std::string::npos) << head;
  for (const std::string& command :
       {"run " + save("nan.onnx", 3, 1) + " --precision fp8", "model quantize --fp8 " + save("nan.onnx", 3, 1) + to}) {
    const std::string nan = said(command);
    EXPECT_NE(nan.find("precision fp8: weights of \"layer0\" hold NaN or infinity"), std::string::npos) << nan;
    EXPECT_NE(nan.find(rounded), std::string::npos) << nan;
  }
  EXPECT_NE(said("model quantize --fp8 " + save("nan.onnx", 3, 1) + to).find("its error is infinite"),
            std::string::npos);
  EXPECT_EQ(said("model quantize --quiet --fp8 " + save("nan.onnx", 3, 1) + to), "");
}

TEST_F(Cli, ModelConvertSaysWhatChanges) {
  const std::string out = folder.file("converted.onnx"),
                    convert = "model convert " + policy() + " --out '" + out + "' ";
  const ProgramResult simplified = run_program(convert + "--simplify");
  EXPECT_EQ(simplified.err, "");
  EXPECT_EQ(parsed("model info '" + out + "'")["opsets"]["ai.onnx"], 14);  // the model's own opset
  const ProgramResult cut = run_program(convert + "--output 'outputs[:, 995:]'");
  EXPECT_NE(cut.err.find("output_slices is cut to outputs[:, 995:]: 1 of 3 heads"), std::string::npos) << cut.err;
  EXPECT_EQ(run_program(convert + "--quiet --output 'outputs[:, 995:]'").err, "");
}

TEST_F(Cli, RunWritesOutputs) {
  const std::string out = folder.file("out");
  const json run = parsed("run " + policy() + " --runs 3 --output-dir '" + out + "'");
  EXPECT_EQ(keys(run), (Keys{"file", "precision", "device", "threads", "load_ms", "runs", "p50_ms", "min_ms", "inputs",
                             "outputs"}));
  EXPECT_EQ(keys(run["inputs"][0]), (Keys{"name", "dtype", "shape", "source"}));
  EXPECT_EQ(keys(run["outputs"][0]),
            (Keys{"name", "dtype", "shape", "mean", "deviation", "min", "max", "not_finite", "file"}));
  const Tensor output = load_npy(out + "/outputs.npy");
  EXPECT_EQ(output.shape(), (Shape{1, 1000}));
  // The same seed gives the same bytes, another seed others.
  ASSERT_EQ(run_program("run " + policy() + " --output-dir '" + folder.file("again") + "'").code, 0);
  EXPECT_EQ(read_text(out + "/outputs.npy"), read_text(folder.file("again/outputs.npy")));
  ASSERT_EQ(run_program("run " + policy() + " --seed 2 --output-dir '" + folder.file("other") + "'").code, 0);
  EXPECT_NE(read_text(out + "/outputs.npy"), read_text(folder.file("other/outputs.npy")));
}

TEST_F(Cli, RunTakesInputs) {
  Tensor desire = Tensor::zeros(DType::f32, Shape{1, 25, 8});
  save_npy(folder.file("desire.npy"), desire.view());
  const json run = parsed("run " + policy() + " --input desire_pulse='" + folder.file("desire.npy") + "'");
  EXPECT_EQ(run["inputs"][1]["source"], folder.file("desire.npy"));
  // NumPy's default float is converted.
  save_npy(folder.file("double.npy"), convert(desire, DType::f64).view());
  parsed("run " + policy() + " --input desire_pulse='" + folder.file("double.npy") + "'");

  save_npy(folder.file("small.npy"), Tensor::zeros(DType::f32, Shape{1, 24, 8}).view());
  expect_usage_error("run " + policy() + " --input desire_pulse='" + folder.file("small.npy") + "'", "[1,24,8]");
  save_npy(folder.file("ints.npy"), Tensor::zeros(DType::i64, Shape{1, 25, 8}).view());
  expect_usage_error("run " + policy() + " --input desire_pulse='" + folder.file("ints.npy") + "'", "i64");
  expect_usage_error("run " + policy() + " --input nothing='" + folder.file("desire.npy") + "'", "nothing");
  write_text(folder.file("broken.npy"), "\x93NUMPY broken");
  expect_usage_error("run " + policy() + " --input desire_pulse='" + folder.file("broken.npy") + "'", "broken.npy");
  expect_usage_error("run " + policy() + " --input desire_pulse='" + folder.file("gone.npy") + "'", "gone.npy");
  expect_usage_error("run " + policy() + " --input desire_pulse=", "empty");
  expect_usage_error("run " + policy() + " --input '" + folder.file("desire.npy") + "'", "NAME=PATH");
}

TEST_F(Cli, RunTakesTheArraysOfAnNpz) {
  const auto npy = [&](const Shape& shape) {
    save_npy(folder.file("array.npy"), Tensor::zeros(DType::f32, shape).view());
    return read_text(folder.file("array.npy"));
  };
  const std::string desire = npy({1, 25, 8}), traffic = npy({1, 2}), both = folder.file("both.npz");
  stack::write_zip(both, {{"desire_pulse.npy", desire}, {"traffic_convention.npy", traffic}});
  const json run = parsed("run " + policy() + " --input '" + both + "'");
  std::map<std::string, std::string> sources;
  for (const json& input : run["inputs"]) sources[input["name"]] = input["source"];
  EXPECT_EQ(sources["desire_pulse"], both);
  EXPECT_EQ(sources["traffic_convention"], both);
  EXPECT_EQ(sources["features_buffer"], "random, seed 1");
  const json one = parsed("run " + policy() + " --input desire_pulse='" + both + "'");
  EXPECT_EQ(one["inputs"][1]["source"], both);

  expect_usage_error("run " + policy() + " --input '" + both + "' --input desire_pulse='" + both + "'", "twice");
  stack::write_zip(folder.file("other.npz"), {{"a.npy", desire}, {"b.npy", traffic}});
  expect_usage_error("run " + policy() + " --input '" + folder.file("other.npz") + "'", "no input \"a\"");
  expect_usage_error("run " + policy() + " --input desire_pulse='" + folder.file("other.npz") + "'", "no array");
}

TEST_F(Cli, RunSlicesOutputs) {
  const json run = parsed("run " + policy() + " --output 'outputs[:, 990:998]'");
  EXPECT_EQ(run["outputs"][0]["shape"], json::parse("[1, 8]"));
  expect_usage_error("run " + policy() + " --output 'outputs[::-1]'", "outputs");
}

// The elements of a [1, n] output file.
std::vector<float> row(const std::string& file) {
  const Tensor tensor = load_npy(file);
  return {tensor.data<float>().begin(), tensor.data<float>().end()};
}

TEST_F(Cli, PartsOfOneOutputAreOutputsOfTheirOwn) {
  const std::string parts = policy() + " --output 'outputs[:, 0:55]' --output 'outputs[:, 55:100]' --output outputs";
  const json run = parsed("run " + parts + " --output-dir '" + folder.file("parts") + "'");
  ASSERT_EQ(run["outputs"].size(), 3u);
  EXPECT_EQ(run["outputs"][1]["name"], "outputs[:, 55:100]");
  const std::vector<float> whole = row(folder.file("parts/outputs.npy"));
  ASSERT_EQ(whole.size(), 1000u);
  EXPECT_EQ(row(folder.file("parts/outputs[_, 0_55].npy")), std::vector(whole.begin(), whole.begin() + 55));
  EXPECT_EQ(row(folder.file("parts/outputs[_, 55_100].npy")), std::vector(whole.begin() + 55, whole.begin() + 100));
  EXPECT_EQ(parsed("model check " + parts)["outputs"][0]["name"], "outputs[:, 0:55]");
  parsed("bench --repeats 0 --runs 2 --threads 1 " + parts);
  const std::string file = "'" + folder.file("parts.onnx") + "'";
  parsed("model convert " + parts + " --out " + file);
  const json again = parsed("run " + file + " --output-dir '" + folder.file("again") + "'");
  EXPECT_EQ(again["outputs"][1]["name"], "outputs[:, 55:100]");
  EXPECT_EQ(row(folder.file("again/outputs[_, 55_100].npy")), std::vector(whole.begin() + 55, whole.begin() + 100));
  expect_usage_error("run " + policy() + " --output outputs --output outputs", "asked for twice");
}

TEST_F(Cli, FoldersThatCannotBeMadeAreRefused) {
  const std::string file = folder.file("file");
  write_text(file, "");
  for (const std::string& place : {file, file + "/inner"}) {
    expect_usage_error("run --quiet " + policy() + " --output-dir '" + place + "'", place + ": cannot make");
    expect_usage_error("run --quiet " + policy() + " --dump-values '" + place + "'", place + ": cannot make");
    expect_usage_error("zoo build tiny_driving_policy --out '" + place + "'", place + ": cannot make");
  }
}

TEST_F(Cli, WritesThroughPipesAndRefusesFolders) {
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& command :
       {"run --quiet " + policy() + " --trace ", "model convert " + policy() + " --out "}) {
    const ProgramResult result = run_program(fmt::format("{}'{}'", command, pipe),
                                             fmt::format("timeout 60 cat '{}' >'{}' &", pipe, folder.file("got")));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(fs::is_fifo(pipe));
  }
  expect_usage_error("run --quiet " + policy() + " --trace '" + folder.path().string() + "'", "is a folder");
}

// Other names for the input file, with which a command may be told to overwrite it.
std::vector<std::string> other_names(const std::string& file) {
  const fs::path path(file), folder = path.parent_path();
  fs::create_symlink(path.filename(), folder / "soft");
  fs::create_hard_link(path, folder / "hard");
  fs::create_directory_symlink(".", folder / "same");
  std::vector<std::string> names = {file, (folder / "." / path.filename()).string(), (folder / "soft").string(),
                                    (folder / "hard").string(), (folder / "same" / path.filename()).string()};
  for (std::string& name : names) name = "'" + name + "'";
  return names;
}

TEST_F(Cli, WhatIsReadIsNotReplaced) {
  const std::string model = folder.file("model.onnx"), before = read_text(models->file("tiny_driving_policy.onnx"));
  write_text(model, before);
  const std::string said = "is read and would be replaced";
  for (const std::string& name : other_names(model)) {
    expect_usage_error("model convert '" + model + "' --out " + name, said);
    expect_usage_error("model convert " + name + " --simplify --out '" + model + "'", said);
    expect_usage_error("model quantize --int8 '" + model + "' " + name + " --calibrate /none", said);
    expect_usage_error("model quantize --quiet --fp8 '" + model + "' " + name, said);
    expect_usage_error("model calibrate '" + model + "' --samples /none --out " + name, said);
    expect_usage_error("run '" + model + "' --dump-graph " + name, said);
    expect_usage_error("run '" + model + "' --trace " + name, said);
    EXPECT_EQ(run_program("model convert model.onnx --out ./model.onnx", "cd '" + folder.path().string() + "';").code,
              2);
    EXPECT_EQ(read_text(model), before) << name;
    EXPECT_EQ(read_text(folder.file("hard")), before) << name;
  }
  EXPECT_EQ(run_program("model convert '" + model + "' --out '" + folder.file("new.onnx") + "'").code, 0);
  EXPECT_EQ(run_program("model convert '" + model + "' --out '" + folder.file("new.onnx") + "'").code, 0) << "again";
}

TEST_F(Cli, WeightsBesideTheModelAreNotReplaced) {
  const std::string model = folder.file("model.onnx"), weights = folder.file("model.onnx.data");
  ASSERT_EQ(run_program("model convert " + policy() + " --external-data --out '" + model + "'").code, 0);
  const std::string before = read_text(weights), said = "is read and would be replaced";
  ASSERT_NE(before, "");
  fs::create_symlink(weights, folder / "new.onnx.data");
  const std::string convert = "model convert '" + model + "' --out '";
  expect_usage_error(convert + weights + "'", said);
  expect_usage_error(convert + folder.file("new.onnx") + "' --external-data", said);
  expect_usage_error("model quantize --int8 '" + model + "' '" + weights + "' --calibrate /none", said);
  expect_usage_error("run '" + model + "' --trace '" + weights + "'", said);
  EXPECT_FALSE(fs::exists(folder / "new.onnx"));
  EXPECT_EQ(read_text(weights), before);
  EXPECT_EQ(run_program(convert + folder.file("new.onnx") + "'").code, 0) << "weights in the model itself";
  EXPECT_EQ(run_program("model check --quick '" + model + "'").code, 0);
}

TEST_F(Cli, InputsAndSamplesAreNotReplaced) {
  const json described = parsed("model info " + policy());
  const std::string input = described["inputs"][0]["name"], output = described["outputs"][0]["name"];
  const auto sizes = described["inputs"][0]["shape"].get<std::vector<int64_t>>();
  const Tensor zeros = Tensor::zeros(DType::f32, Shape(std::span<const int64_t>(sizes)));
  const std::string file = folder.file(output + ".npy"), said = "is read and would be replaced";
  save_npy(file, zeros.view());
  const std::string before = read_text(file), run = "run --quiet " + policy() + " --input " + input + "='" + file + "'";
  expect_usage_error(run + " --output-dir '" + folder.path().string() + "'", said);
  expect_usage_error(run + " --trace '" + file + "'", said);
  fs::rename(file, folder / (input + ".npy"));
  fs::create_symlink(folder / (input + ".npy"), file);
  expect_usage_error(run + " --dump-values '" + folder.path().string() + "'", said);
  expect_usage_error("model quantize --int8 " + policy() + " '" + file + "' --calibrate " + input + "='" + file + "'",
                     said);
  EXPECT_EQ(read_text(file), before);
}

TEST_F(Cli, ZooBuildReplacesStandInsOnly) {
  const std::string model = folder.file("tiny_driving_policy.onnx"),
                    build = "zoo build --quiet --out '" + folder.path().string() + "' ";
  write_text(model, "trained weights");
  expect_usage_error(build + "tiny_driving_vision tiny_driving_policy", model + ": exists and is not a stand-in");
  EXPECT_EQ(read_text(model), "trained weights");
  EXPECT_FALSE(fs::exists(folder / "tiny_driving_vision.onnx"));
  fs::remove(model);
  for (const std::string seed : {"1", "2"})
    EXPECT_EQ(run_program(build + "tiny_driving_policy --seed " + seed).code, 0);
}

TEST_F(Cli, RunDumpsWhatItDid) {
  const ProgramResult result =
      run_program("run " + policy() + " --passes none --dump-values '" + folder.file("values") + "' --dump-graph '" +
                  folder.file("graph.dot") + "' --trace '" + folder.file("trace.json") + "'");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_text(folder.file("graph.dot")).substr(0, 7), "digraph");
  const json trace = json::parse(read_text(folder.file("trace.json")));
  EXPECT_GT(trace["traceEvents"].size(), 50u);
  int values = 0;
  for (const auto& entry : fs::directory_iterator(folder.file("values"))) {
    EXPECT_EQ(entry.path().extension(), ".npy");
    load_npy(entry.path());
    ++values;
  }
  EXPECT_GT(values, 50);
}

TEST_F(Cli, BenchMeasures) {
  const json bench = parsed("bench --repeats 0 " + policy() + " '" + models->file("tiny_driving_vision.onnx") +
                            "' --runs 5 --warmup 1 --threads 1 --profile");
  ASSERT_EQ(bench["models"].size(), 2u);
  const json& model = bench["models"][0];
  EXPECT_EQ(keys(model), (Keys{"file",
                               "file_bytes",
                               "file_fnv1a_64",
                               "precision",
                               "threads",
                               "batch",
                               "settings",
                               "runs",
                               "mean_ms",
                               "p50_ms",
                               "p90_ms",
                               "p99_ms",
                               "min_ms",
                               "max_ms",
                               "first_ms",
                               "load_ms",
                               "ptx_ms",
                               "tuning_ms",
                               "frames_per_second",
                               "limits",
                               "peak_memory_bytes",
                               "weight_bytes",
                               "flops",
                               "choices",
                               "profile",
                               "roofline_share",
                               "roofline_limit"}));
  EXPECT_EQ(model["runs"], 5);
  EXPECT_EQ(model["threads"], 1);
  EXPECT_LE(model["min_ms"], model["p50_ms"]);
  EXPECT_LE(model["p50_ms"], model["p99_ms"]);
  EXPECT_GT(model["flops"], 1000);
  EXPECT_GT(model["roofline_share"], 0);
  // The limits that the output refers to are listed in it.
  std::set<std::string> limits;
  for (const char* part : {"units", "levels"}) {
    for (const json& limit : model["limits"][part]) limits.insert(limit["name"]);
  }
  EXPECT_TRUE(limits.contains("L1"));
  EXPECT_TRUE(limits.contains(model["roofline_limit"])) << model["roofline_limit"];
  for (const json& node : model["profile"]) {
    EXPECT_TRUE(node["roofline_limit"] == "" || limits.contains(node["roofline_limit"])) << node;
  }
  EXPECT_EQ(keys(model["profile"][0]), (Keys{"name", "op", "kernel", "chosen_by", "kind", "declined", "shape", "calls",
                                             "mean_ms", "flops", "bytes", "roofline_share", "roofline_limit"}));
  EXPECT_EQ(bench["models"][1].count("profile"), 1u);
  const auto lines = [](const std::string& flags) {
    const std::string out = run_program("bench --quiet --runs 3 --threads 1 " + flags + policy()).out;
    return std::count(out.begin(), out.end(), '\n');
  };
  EXPECT_EQ(lines("--profile --top 2 ") - lines("--profile --top 1 "), 1);
  EXPECT_GT(lines("--profile "), lines("--profile --top 2 "));
  expect_usage_error("bench " + policy() + " --top 2", "--profile");
}

TEST_F(Cli, BenchLooksAtEveryFileFirst) {
  write_text(folder.file("bad.onnx"), "no model");
  const ProgramResult result = run_program("bench " + policy() + " '" + folder.file("bad.onnx") + "' --runs 10000000");
  EXPECT_EQ(result.code, 2);  // long before the first model's runs have finished
  EXPECT_NE(result.err.find("bad.onnx"), std::string::npos) << result.err;
  write_text(folder.file("other.onnx"), model({node("Relu", "relu", {"x"}, "y")}));
  expect_usage_error("bench " + policy() + " '" + folder.file("other.onnx") + "' --output outputs --runs 10000000",
                     "other.onnx: the model has no output \"outputs\"");
}

TEST_F(Cli, BenchCountsTheFramesOfABatch) {
  const json fixed = parsed("bench --repeats 0 " + policy() + " --batch 4 --runs 5 --threads 1")["models"][0];
  EXPECT_EQ(fixed["batch"], 4);
  EXPECT_NEAR(fixed["frames_per_second"].get<double>() * fixed["mean_ms"].get<double>(), 4000, 1e-6);
  expect_usage_error("bench " + policy() + " --batch 0", "--batch: expected at least 1");
  expect_usage_error("bench " + policy() + " --batch -2", "--batch: expected at least 1");
  expect_usage_error("bench " + policy() + " --runs 0", "--runs: expected at least 1, got 0");
  expect_usage_error("bench " + policy() + " --runs 9000000000000000000", "--runs: expected at most 10000000");
  expect_usage_error("bench " + policy() + " --json --repeats 401", "--repeats: expected at most 400, got 401");
  write_text(folder.file("open.onnx"), model({node("Relu", "relu", {"x"}, "y")}, {}, {-1, 3}));
  const json bench =
      parsed("bench --repeats 0 '" + folder.file("open.onnx") + "' --batch 4 --runs 5 --threads 1")["models"][0];
  EXPECT_EQ(bench["batch"], 4);
  EXPECT_NEAR(bench["frames_per_second"].get<double>() * bench["mean_ms"].get<double>(), 4000, 1e-6);
  // Neither open nor for one batch entry.
  write_text(folder.file("two.onnx"), model({node("Relu", "relu", {"x"}, "y")}, {}, {2, 3}));
  expect_usage_error("bench '" + folder.file("two.onnx") + "' --batch 4", "\"x\" is [2, 3]");
}

TEST_F(Cli, BenchChoosesThreadsByMeasuring) {
  const json model = parsed("bench --repeats 0 " + policy() + " --runs 5")["models"][0];
  ASSERT_TRUE(model.contains("thread_trials"));
  EXPECT_GE(model["thread_trials"].size(), 1u);
  EXPECT_EQ(model["thread_trials"][0]["threads"], 1);
  EXPECT_EQ(model.count("profile"), 0u);
}

TEST_F(Cli, TuningOfAnotherProcessorOrDamagedIsIgnoredWithALine) {
  const fs::path file = folder / "sparkpilot/tuning.json";
  fs::create_directories(file.parent_path());
  const std::string cache = "XDG_CACHE_HOME='" + folder.path().string() + "'";
  const std::string elsewhere = R"({"sparkpilot": "0.1.0", "cpu": "Z80", "threads": {}})";
  for (const std::string& text : {std::string("{\"threads\": "), std::string("[]"), elsewhere}) {
    write_text(file, text);
    const ProgramResult result = run_program("run " + policy() + " --json", cache);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find("tuning.json is not used: "), std::string::npos) << text << ": " << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    write_text(file, text);
    EXPECT_EQ(run_program("run " + policy() + " --json --threads 1", cache).err, "");
  }
  fs::remove(file);
  EXPECT_EQ(run_program("run " + policy() + " --json", cache).err, "");
}

TEST_F(Cli, TuneFullTimesKernelsAndLaterRunsKnowThem) {
  const std::string cache = "XDG_CACHE_HOME='" + folder.path().string() + "' SPARKPILOT_TUNE=";
  const std::string bench = "bench " + policy() + " --profile --threads 1 --runs 5 --repeats 0 --json";
  const auto choices = [](const ProgramResult& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false)["models"][0]["choices"];
  };
  const json off = choices(run_program(bench, cache + "off"));
  ASSERT_FALSE(off.empty());
  for (const json& choice : off) {
    EXPECT_EQ(keys(choice), (Keys{"node", "kernel", "chosen_by", "note"}));
    EXPECT_EQ(choice["chosen_by"], "rules") << choice;
  }
  EXPECT_FALSE(fs::exists(folder / "sparkpilot/tuning.json"));

  const ProgramResult full = run_program(bench + " --tune full", cache + "off");  // the flag takes precedence
  EXPECT_NE(full.err.find("timing the kernels of "), std::string::npos) << full.err;
  EXPECT_EQ(full.err.find("timing the kernels of "), full.err.rfind("timing the kernels of ")) << full.err;
  const json found = choices(full);
  ASSERT_EQ(found.size(), off.size());
  for (const json& node : json::parse(full.out)["models"][0]["profile"]) {
    const auto choice =
        std::find_if(found.begin(), found.end(), [&](const json& c) { return c["node"] == node["kind"]; });
    if (choice == found.end()) continue;
    EXPECT_EQ(node["chosen_by"], (*choice)["chosen_by"]);
    EXPECT_EQ(node["kernel"], (*choice)["kernel"]) << "the node whose time is told is the one that was chosen";
  }

  const json again = choices(run_program(bench + " --tune auto", cache + "off"));
  ASSERT_EQ(again.size(), found.size());
  for (size_t i = 0; i < again.size(); ++i) {
    if (found[i]["chosen_by"] != "measured") continue;  // a choice that was not significant in time is measured again
    EXPECT_EQ(again[i]["kernel"], found[i]["kernel"]);
    EXPECT_EQ(again[i]["chosen_by"], "measured");
  }
  EXPECT_EQ(choices(run_program(bench, cache + "off")), off) << "off does not read what is kept";
  expect_usage_error("run " + policy() + " --tune sometimes", "--tune: expected off, auto or full");
  // If nothing can be stored, `auto` means `off`.
  EXPECT_EQ(choices(run_program(bench, "SPARKPILOT_TUNE=auto XDG_CACHE_HOME=/dev/null")), off);
}

// OMP_DISPLAY_ENV makes libgomp print its settings.
TEST_F(Cli, ThreadsSleepSoonAfterTheirWork) {
#ifdef SPARKPILOT_SERIAL
  GTEST_SKIP() << "built without threads";
#endif
  const auto spins = [&](const std::string& before) {
    const std::string err = run_program("bench " + policy() + " --quiet --runs 1 --threads 1", before).err;
    std::vector<int64_t> counts;
    const std::string name = "GOMP_SPINCOUNT = '";
    for (size_t at = err.find(name); at != std::string::npos; at = err.find(name, at + 1)) {
      counts.push_back(std::stoll(err.substr(at + name.size())));
    }
    return counts;
  };
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  const std::vector<int64_t> usual = spins("OMP_DISPLAY_ENV=verbose");
  ASSERT_EQ(usual.size(), 2u);
  EXPECT_LT(usual[1], usual[0]);
  EXPECT_GT(usual[1], 0);
  EXPECT_EQ(spins("OMP_DISPLAY_ENV=verbose GOMP_SPINCOUNT=77"), std::vector<int64_t>{77});
  EXPECT_EQ(spins("OMP_DISPLAY_ENV=verbose OMP_WAIT_POLICY=passive").size(), 1u);
}

// The program restarts itself for short waits, but keeps its own name in the list.
TEST_F(Cli, KeepsItsNameInTheListOfProcesses) {
#ifdef SPARKPILOT_SERIAL
  GTEST_SKIP() << "built without threads";
#endif
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  const std::string model = policy();
  forget_settings();
  const pid_t child = fork();
  if (child == 0) {
    execl(SPARKPILOT_PROGRAM, "sparkpilot", "bench", model.c_str(), "--quiet", "--runs", "100000000", nullptr);
    _exit(127);
  }
  const std::string process = "/proc/" + std::to_string(child);
  const auto anew = [&] { return read_text(process + "/environ").find("GOMP_SPINCOUNT=") != std::string::npos; };
  for (int i = 0; i < 1000 && !anew(); ++i) usleep(10'000);
  EXPECT_TRUE(anew());
  EXPECT_EQ(read_text(process + "/comm"), fs::path(SPARKPILOT_PROGRAM).filename().string() + "\n");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(Cli, OpsAreListedCheckedAndTimed) {
  const json list = parsed("ops list Softmax");
  EXPECT_EQ(keys(list["ops"][0]),
            (Keys{"name", "domain", "since", "doc", "kernels", "cuda_kernels", "expands", "has_gradient"}));
  EXPECT_NE(run_program("ops list --markdown").out.find("| Softmax | 13 |"), std::string::npos);
  const json check = parsed("ops check Softmax Identity");
  EXPECT_EQ(keys(check), (Keys{"seed", "device", "passed", "failed", "skipped", "results"}));
  EXPECT_EQ(keys(check["results"][0]),
            (Keys{"op", "case", "kernel", "outcome", "relative_l2", "tolerance", "message"}));
  EXPECT_EQ(check["failed"], 0);
  int skipped = 0;
  const json skips = parsed("ops check Acos");
  for (const json& result : skips["results"]) {
    skipped += result["outcome"] == "skipped";
    EXPECT_EQ(result["relative_l2"].is_null(), result["outcome"] == "skipped") << result;
  }
  EXPECT_GT(skipped, 0);
  const json gradients = parsed("ops check --gradients Softmax Hardmax");
  EXPECT_EQ(keys(gradients["results"][0]),
            (Keys{"op", "case", "kernel", "outcome", "relative_error", "tolerance", "message"}));
  EXPECT_EQ(gradients["failed"], 0);
  EXPECT_GT(gradients["passed"], 5);
  EXPECT_EQ(run_program("ops check --gradients --device cuda").code, 2);
  EXPECT_EQ(parsed("ops list Hardmax")["ops"][0]["no_gradient"], "its results are constant between jumps");
  const json bench = parsed("ops bench Softmax --ms 1");
  ASSERT_FALSE(bench["results"].empty());
  EXPECT_EQ(keys(bench["results"][0]), (Keys{"op", "case", "kernel", "shape", "p50_us", "flops", "bytes"}));
}

TEST_F(Cli, ThePageOfOpsIsTheTables) {
  EXPECT_EQ(read_text(SPARKPILOT_SOURCE_DIR "/docs/ops.md"), run_program("ops list --markdown").out)
      << "print it anew: build/sparkpilot ops list --markdown >docs/ops.md";
}

// Names and texts of a model reach a terminal as text.
TEST_F(Cli, NamesDoNotCommandTheTerminal) {
  Graph g;
  g.name = "evil\x1b]0;title\x07";
  g.opsets[""] = 26;
  Builder b(g);
  b.output(b.add("Relu", {b.input("x", DType::f32, {1})}), "y\x1b[2J\xc2\x9b");
  g.metadata["key"] = "a\x1b[31mb\rc";
  save_onnx(g, folder.file("evil.onnx"));
  for (const std::string command : {"model info", "run", "model check"}) {
    const ProgramResult result = run_program(command + " '" + folder.file("evil.onnx") + "'");
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find("y\\x1b[2J\\x9b"), std::string::npos) << command << result.out;
    EXPECT_EQ(result.out.find_first_of("\x07\r\x1b"), std::string::npos) << command;
    EXPECT_EQ(result.out.find("\xc2\x9b"), std::string::npos) << command;
  }
  const std::string document = run_program("model info --json '" + folder.file("evil.onnx") + "'").out;
  EXPECT_EQ(document.find("\xc2\x9b"), std::string::npos);
  EXPECT_EQ(json::parse(document)["outputs"][0]["name"], "y\x1b[2J\xc2\x9b");
}

// What is opened must not take the numbers of streams that the caller closed, or notes are written into results.
TEST_F(Cli, ClosedStreamsStayEmpty) {
  const std::string file = folder.file("readings.csv");
  const std::string command = std::string("sh -c 'exec \"$@\" 2>&-' sh '") + SPARKPILOT_PROGRAM + "' monitor --csv '" +
                              file + "' --duration 300ms --interval 100ms >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::istringstream lines(read_text(file));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_NE(line.find(','), std::string::npos) << line;
  EXPECT_GE(count, 2);
  const int code = std::system((std::string("'") + SPARKPILOT_PROGRAM + "' version --json >&- 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(code), 2) << "a report that nobody gets";
}

TEST_F(Cli, AFailedCheckIsCodeFour) {
  write_text(folder.file("infinite.onnx"),
             model({node("Div", "divide", {"x", "zero"}, "y")}, {initializer("zero", {1}, std::string(4, '\0'))}));
  const ProgramResult result = run_program("model check --quick --json '" + folder.file("infinite.onnx") + "'");
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_EQ(json::parse(result.out)["outputs"][0]["not_finite"], 2);
  // Beside the reference it is right, and said to be nothing that could be compared.
  const std::string word = "2 of its numbers are NaN or infinite on both sides";
  EXPECT_NE(run_program("model check '" + folder.file("infinite.onnx") + "'").err.find(word), std::string::npos);
  const ProgramResult both =
      run_program("compare --precision fp32,bf16 --emulate '" + folder.file("infinite.onnx") + "'");
  EXPECT_NE(both.err.find("2 of 2 numbers are NaN or infinite on both sides"), std::string::npos) << both.err;
  const json run = parsed("run '" + folder.file("infinite.onnx") + "'");
  EXPECT_EQ(run["outputs"][0]["not_finite"], 2);
  for (const char* key : {"mean", "deviation", "min", "max"}) EXPECT_TRUE(run["outputs"][0][key].is_null()) << key;
}

TEST_F(Cli, AFullDiskIsReported) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const std::string command = std::string("'" SPARKPILOT_PROGRAM "' ops list >/dev/full 2>/dev/null");
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
}

TEST_F(Cli, InterruptionLeavesNothingHalfWritten) {
  const std::string out = folder.file("models");
  const pid_t child = fork();
  if (child == 0) {
    execl(SPARKPILOT_PROGRAM, "sparkpilot", "zoo", "build", "--quiet", "--all", "--out", out.c_str(), nullptr);
    _exit(127);
  }
  // Waits until the first file, or its temporary version, exists: then the run is in the middle of its work.
  for (int i = 0; i < 1000 && (!fs::exists(out) || fs::is_empty(out)); ++i) usleep(10'000);
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  for (const auto& entry : fs::directory_iterator(out)) EXPECT_EQ(entry.path().extension(), ".onnx") << entry.path();
}

}  // namespace cli_test
}  // namespace sparkpilot
