// The stand-in models fulfil their contracts, have the right sizes, and compute plausible values.
#include "onnx/zoo.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <span>

#include "base/error.h"
#include "base/fnv.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ir/census.h"
#include "ir/interpret.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/metadata.h"
#include "onnx/zoo_models.h"

namespace sparkpilot {
namespace {
namespace fs = std::filesystem;

// Builds everything except the weights' contents: fast at any size.
Graph skeleton(std::string_view name) {
  Graph graph;
  Layers layers(graph, 1, false);
  build_zoo_model(layers, name);
  return graph;
}

std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    Tensor tensor(value.dtype, *value.shape);
    const bool pixels = value.name.find("img") != std::string::npos;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      store_element(value.dtype, tensor.raw(), i,
                    pixels ? static_cast<double>(random.integer(0, 255)) : random.normal());
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

using Contract = std::vector<std::tuple<std::string, DType, Shape>>;

const Contract kImages{{"img", DType::u8, {1, 12, 128, 256}}, {"big_img", DType::u8, {1, 12, 128, 256}}};
const Contract kPolicy{{"features_buffer", DType::f32, {1, 25, 512}},
                       {"desire_pulse", DType::f32, {1, 25, 8}},
                       {"traffic_convention", DType::f32, {1, 2}}};
const Contract kSupercombo{kImages[0], kImages[1], {"features_buffer", DType::f32, {1, 24, 512}},
                           kPolicy[1], kPolicy[2], {"action_t", DType::f32, {1, 2}}};
const Contract kOldSupercombo{{"input_imgs", DType::f16, {1, 12, 128, 256}},
                              {"big_input_imgs", DType::f16, {1, 12, 128, 256}},
                              {"desire", DType::f16, {1, 100, 8}},
                              {"traffic_convention", DType::f16, {1, 2}},
                              {"lateral_control_params", DType::f16, {1, 2}},
                              {"prev_desired_curv", DType::f16, {1, 100, 1}},
                              {"features_buffer", DType::f16, {1, 99, 512}}};
const Contract kOldPolicy{{"desire", DType::f32, {1, 25, 8}},
                          {"traffic_convention", DType::f32, {1, 2}},
                          {"lateral_control_params", DType::f32, {1, 2}},
                          {"prev_desired_curv", DType::f32, {1, 25, 1}},
                          {"features_buffer", DType::f32, {1, 25, 512}}};
const Contract kMonitoring{{"input_img", DType::u8, {1, 1382400}}, {"calib", DType::f32, {1, 3}}};

void expect_contract(const std::string& name, const Contract& inputs, int64_t width, DType answers = DType::f32) {
  for (const std::string& variant : {name, "tiny_" + name}) {
    SCOPED_TRACE(variant);
    const Graph graph = skeleton(variant);
    ASSERT_EQ(graph.inputs().size(), inputs.size());
    for (const auto& [input, dtype, shape] : inputs) {
      const ValueId id = graph.find_input(input);
      ASSERT_TRUE(id.present()) << input;
      EXPECT_EQ(graph.value(id).dtype, dtype) << input;
      EXPECT_EQ(*graph.value(id).shape, shape) << input;
    }
    ASSERT_EQ(graph.outputs().size(), 1u);
    EXPECT_EQ(graph.outputs()[0].name, "outputs");
    const Value& output = graph.value(graph.outputs()[0].value);
    EXPECT_EQ(output.dtype, answers);
    EXPECT_EQ(*output.shape, (Shape{1, width}));
    EXPECT_FALSE(graph.metadata.at("model_checkpoint").empty());

    // The slices cover the output without gaps, in order.
    int64_t at = 0;
    for (const auto& [head, slice] : output_slices(graph)) {
      if (head == "pad") continue;
      EXPECT_EQ(slice.start, at) << head;
      at = slice.stop.value();
    }
    const OutputSlices slices = output_slices(graph);
    if (slices.back().first == "pad") at -= slices.back().second.start.value();
    EXPECT_EQ(at, width);
  }
}

TEST(Zoo, VisionHoldsItsContract) { expect_contract("driving_vision", kImages, 1576); }
TEST(Zoo, PolicyHoldsItsContract) { expect_contract("driving_policy", kPolicy, 1000); }
TEST(Zoo, SupercomboHoldsItsContract) { expect_contract("driving_supercombo", kSupercombo, 2576); }
TEST(Zoo, BigSupercomboHoldsItsContract) { expect_contract("big_driving_supercombo", kSupercombo, 2576); }
TEST(Zoo, OldSupercomboHoldsItsContract) { expect_contract("supercombo", kOldSupercombo, 6504, DType::f16); }
TEST(Zoo, OldVisionHoldsItsContract) { expect_contract("driving_vision_v0.10.0", kImages, 1536); }
TEST(Zoo, OldPolicyHoldsItsContract) { expect_contract("driving_policy_v0.10.0", kOldPolicy, 4968); }
TEST(Zoo, MonitoringHoldsItsContract) { expect_contract("dmonitoring_model", kMonitoring, 551); }

// As in openpilot's metadata of 2025-10-28 and 2025-11-22.
TEST(Zoo, SlicesAreOpenpilots) {
  using S = OutputSlice;
  const OutputSlices vision{{"meta", S{0, 55, {}}},
                            {"desire_pred", S{55, 87, {}}},
                            {"pose", S{87, 99, {}}},
                            {"wide_from_device_euler", S{99, 105, {}}},
                            {"road_transform", S{105, 117, {}}},
                            {"lane_lines", S{117, 645, {}}},
                            {"lane_lines_prob", S{645, 653, {}}},
                            {"road_edges", S{653, 917, {}}},
                            {"lead", S{917, 1061, {}}},
                            {"lead_prob", S{1061, 1064, {}}},
                            {"hidden_state", S{1064, 1576, {}}},
                            {"pad", S{0, {}, {}}}};
  EXPECT_EQ(output_slices(skeleton("driving_vision")), vision);
  const OutputSlices policy{{"plan", S{0, 990, {}}}, {"desire_state", S{990, 998, {}}}, {"pad", S{-2, {}, {}}}};
  EXPECT_EQ(output_slices(skeleton("driving_policy")), policy);
  const OutputSlices monitoring = output_slices(skeleton("dmonitoring_model"));
  ASSERT_EQ(monitoring.size(), 18u);
  EXPECT_EQ(monitoring[9], (std::pair<std::string, S>{"face_prob_rhd", S{31, 32, {}}}));
  EXPECT_EQ(monitoring[16], (std::pair<std::string, S>{"wheel_on_right", S{38, 39, {}}}));
  EXPECT_EQ(monitoring[17], (std::pair<std::string, S>{"features", S{39, 551, {}}}));
}

// As in the metadata of 2025-08-19, and 0.9.7's by name and width.
TEST(Zoo, OlderSlicesAreOpenpilots) {
  using S = OutputSlice;
  OutputSlices vision = output_slices(skeleton("driving_vision_v0.10.0"));
  ASSERT_EQ(vision.size(), 12u);
  const OutputSlices last(vision.end() - 5, vision.end());
  EXPECT_EQ(last, (OutputSlices{{"road_edges", S{653, 917, {}}},
                                {"lead", S{917, 1019, {}}},
                                {"lead_prob", S{1019, 1022, {}}},
                                {"hidden_state", S{1022, 1534, {}}},
                                {"pad", S{-2, {}, {}}}}));
  const OutputSlices policy{{"plan", S{0, 4955, {}}},
                            {"desire_state", S{4955, 4963, {}}},
                            {"desired_curvature", S{4963, 4965, {}}},
                            {"pad", S{-3, {}, {}}}};
  EXPECT_EQ(output_slices(skeleton("driving_policy_v0.10.0")), policy);
  std::map<std::string, int64_t> widths;
  for (const auto& [head, slice] : output_slices(skeleton("supercombo"))) {
    if (head != "pad") widths[head] = slice.stop.value() - slice.start.value();
  }
  const std::map<std::string, int64_t> expected{{"plan", 4955},
                                                {"lane_lines", 528},
                                                {"lane_lines_prob", 8},
                                                {"road_edges", 264},
                                                {"lead", 102},
                                                {"lead_prob", 3},
                                                {"desire_state", 8},
                                                {"meta", 48},
                                                {"desire_pred", 32},
                                                {"pose", 12},
                                                {"sim_pose", 12},
                                                {"road_transform", 12},
                                                {"wide_from_device_euler", 6},
                                                {"hidden_state", 512},
                                                {"desired_curvature", 2}};
  EXPECT_EQ(widths, expected);
}

TEST(Zoo, SizesAreWhatTheTableSays) {
  for (const ZooEntry& entry : zoo()) {
    const Census census = take_census(skeleton(entry.name));
    EXPECT_EQ(census.parameters, entry.parameters) << entry.name;
    EXPECT_EQ(static_cast<int64_t>(census.macs), entry.macs) << entry.name;
    EXPECT_EQ(census.unknown, 0) << entry.name;
  }
}

TEST(Zoo, SizesAreNearTheRealOnes) {
  const auto near = [](std::string_view name, double parameters, double macs) {
    const ZooEntry& entry = *find_zoo_entry(name);
    EXPECT_NEAR(static_cast<double>(entry.parameters), parameters, 0.05 * parameters) << name;
    EXPECT_NEAR(static_cast<double>(entry.macs), macs, 0.05 * macs) << name;
  };
  near("driving_vision", 23.15e6, 0.811e9);
  near("driving_policy", 6.95e6, 0.0375e9);
  near("driving_supercombo", 30.4e6, 0.848e9);
  near("big_driving_supercombo", 382e6, 46.7e9);
  near("supercombo", 25.1e6, 0.844e9);  // 50.2 MB; the work of 0.9.9's two networks
  near("driving_vision_v0.10.0", 23.13e6, 0.811e9);
  near("driving_policy_v0.10.0", 7.79e6, 0.039e9);
  EXPECT_NEAR(static_cast<double>(find_zoo_entry("dmonitoring_model")->parameters), 3.5e6, 0.1e6);
}

TEST(Zoo, OpsAreMixedAsInTheRealOnes) {
  const auto vision = take_census(skeleton("driving_vision")).ops;
  const auto near = [&](const char* op, int real) { EXPECT_NEAR(vision.at(op), real, 0.11 * real) << op; };
  near("Mul", 128), near("Add", 61), near("Conv", 60), near("Gemm", 36), near("Relu", 30), near("Tanh", 19);
  for (const char* op : {"ReduceMean", "Sigmoid", "GlobalAveragePool", "ReduceSum", "Sqrt", "Clip", "Div"}) {
    EXPECT_EQ(vision.at(op), 1) << op;
  }
  const auto policy = take_census(skeleton("driving_policy")).ops;
  EXPECT_NEAR(policy.at("Gemm"), 47, 4);
  EXPECT_NEAR(policy.at("Relu"), 39, 4);
  EXPECT_EQ(policy.at("MatMul"), 7);
  EXPECT_EQ(policy.at("ReduceMean"), 4);
  EXPECT_EQ(policy.at("Squeeze"), 3);
  EXPECT_EQ(policy.at("Softmax"), 1);
  EXPECT_EQ(policy.at("Elu"), 1);
  const Census big = take_census(skeleton("big_driving_supercombo"));
  EXPECT_GT(big.ops.at("MatMul"), 100);
}

TEST(Zoo, TinyOnesAreTinyAndSurviveTheRoundTrip) {
  const fs::path file = fs::temp_directory_path() / fmt::format("sparkpilot_zoo_{}.onnx", getpid());
  for (const ZooEntry& entry : zoo()) {
    if (entry.name.substr(0, 5) != "tiny_") continue;
    SCOPED_TRACE(entry.name);
    const Graph graph = build_zoo_model(entry.name);
    save_onnx(graph, file);
    EXPECT_LT(fs::file_size(file), 300'000u);
    const Graph read = load_onnx(file);
    EXPECT_EQ(output_slices(read), output_slices(graph));
    EXPECT_EQ(read.metadata, graph.metadata);
    const std::vector<Tensor> inputs = random_inputs(graph, 1);
    const Tensor expected = interpret(graph, inputs)[0], got = interpret(read, inputs)[0];
    EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), static_cast<size_t>(expected.bytes())), 0);
  }
  fs::remove(file);
}

std::vector<float> floats(const Tensor& tensor) {
  std::vector<float> out;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    out.push_back(static_cast<float>(load_element(tensor.dtype(), tensor.raw(), i)));
  }
  return out;
}

// Every head of every model: finite, neither constant nor exploding, and different for different images.
void expect_sane(const std::string& name) {
  SCOPED_TRACE(name);
  const Graph graph = build_zoo_model(name);
  const Tensor first = interpret(graph, random_inputs(graph, 1))[0],
               second = interpret(graph, random_inputs(graph, 2))[0];
  const std::vector<float> a = floats(first), b = floats(second);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(std::isfinite(a[i]) && std::isfinite(b[i])) << i;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  EXPECT_GT(std::sqrt(difference / norm), 1e-3);
  for (const auto& [head, slice] : output_slices(graph)) {
    const auto [begin, end] = slice.resolve(first.elements());
    double squares = 0;
    for (int64_t i = begin; i < end; ++i) squares += a[static_cast<size_t>(i)] * a[static_cast<size_t>(i)];
    if (head == "pad") continue;
    const double size = std::sqrt(squares / static_cast<double>(end - begin));
    EXPECT_LT(size, 10) << head;
    if (end - begin >= 8) {
      EXPECT_GT(size, 0.02) << head;
    }
  }
}

TEST(Zoo, OutputsAreSane) {
  for (const ZooEntry& entry : zoo()) {
    if (entry.name.substr(0, 5) == "tiny_" || entry.name == "driving_policy") expect_sane(std::string(entry.name));
  }
}

// y is the lane's middle where the point's x is, between two distances and beyond them all, and the way from the car to
// the middle here; the plan's own y does not matter, a desire does.
TEST(Zoo, APathFollowsTheLane) {
  Graph graph;
  Layers layers(graph, 1);
  const ValueId plan = graph.add_input("plan", DType::f32, Shape{1, 990}),
                lines = graph.add_input("lines", DType::f32, Shape{1, 528}),
                desire = graph.add_input("desire", DType::f32, Shape{1, 25, 8});
  graph.opsets[""] = Layers::kOpset;
  const auto half = [&](ValueId x) { return layers.cast(x, DType::f16); };
  graph.add_output(layers.cast(follow_lane(layers, half(plan), half(lines), half(desire)), DType::f32), "path");
  const auto weight = [&](const std::string& name) {
    for (int i = 0; i < graph.value_count(); ++i) {
      if (graph.value(ValueId{i}).name == name) return graph.value(ValueId{i}).constant;
    }
    throw std::runtime_error(name);
  };
  const Tensor back = weight("follow_lane.back.weight"), back_bias = weight("follow_lane.back.bias"),
               aside = weight("follow_lane.aside.weight"), aside_bias = weight("follow_lane.aside.bias"),
               wish = weight("follow_lane.desire.bias");
  const auto at = [](const Tensor& tensor, int64_t i) { return load_element(tensor.dtype(), tensor.raw(), i); };
  Random random(5);
  const auto uniform = [&](double low, double high) { return static_cast<float>(random.uniform(low, high)); };
  std::vector<Tensor> inputs{Tensor(DType::f32, Shape{1, 990}), Tensor(DType::f32, Shape{1, 528}),
                             Tensor::zeros(DType::f32, Shape{1, 25, 8})};
  for (const size_t i : {0u, 1u}) {
    for (float& x : inputs[i].data<float>()) x = uniform(-4, 4);
  }
  float* points = inputs[0].data<float>().data();
  const float* line = inputs[1].data<float>().data();
  for (int i = 0; i < 33; ++i) {
    points[15 * i] = i == 0 ? -3.0f : std::round(4 * (7 * static_cast<float>(i) + uniform(0, 5))) / 4;
  }
  const Tensor got = interpret(graph, inputs)[0];
  const auto middle = [&](int i) { return 0.5 * (line[66 + 2 * i] + line[132 + 2 * i]); };
  const auto distance = [](int i) { return 192.0 * i * i / 1024; };
  for (int k = 0; k < 990; ++k) {
    double expected = points[k];
    const int point = k / 15;
    if (k < 495 && k % 15 == 1) {
      const double x = points[k - 1];
      int piece = 0;
      while (piece < 31 && distance(piece + 1) < x) ++piece;
      const double part = std::clamp((x - distance(piece)) / (distance(piece + 1) - distance(piece)), 0.0, 1.0);
      expected = middle(piece) + part * (middle(piece + 1) - middle(piece));
      expected += at(back, point) * middle(0) + at(back_bias, point) + at(aside_bias, point);
      for (int64_t i = 0; i < 8; ++i) expected += at(aside, point * 8 + i) * std::max(0.0, at(wish, i));
    }
    EXPECT_NEAR(got.data<float>()[static_cast<size_t>(k)], expected, k % 15 == 1 ? 0.1 : 0.002) << k;
  }
  std::vector<Tensor> others = inputs;
  others[0] = inputs[0].clone();
  for (int i = 0; i < 33; ++i) others[0].data<float>()[static_cast<size_t>(15 * i + 1)] += 2;
  const Tensor same = interpret(graph, others)[0];
  others[2].data<float>()[3] = 1;
  const Tensor wanted = interpret(graph, others)[0];
  double moved = 0;
  for (size_t i = 1; i < 495; i += 15) {
    EXPECT_NEAR(same.data<float>()[i], got.data<float>()[i], 0.02) << i;
    moved += std::abs(static_cast<double>(wanted.data<float>()[i] - same.data<float>()[i]));
  }
  EXPECT_GT(moved, 1);
}

// The pose's speed is remembered, x and the plan's speeds follow it, and of the past only speeds that there were count.
TEST(Zoo, APathFollowsTheSpeed) {
  constexpr int64_t kRows = 25, kState = 512;
  Graph graph;
  Layers layers(graph, 1);
  const ValueId summary = graph.add_input("summary", DType::f32, Shape{1, 48}),
                pose = graph.add_input("pose", DType::f32, Shape{1, 12}),
                there = graph.add_input("there", DType::f32, Shape{1, 1}),
                plan = graph.add_input("plan", DType::f32, Shape{1, 990}),
                features = graph.add_input("features", DType::f32, Shape{1, kRows, kState});
  graph.opsets[""] = Layers::kOpset;
  const auto half = [&](ValueId x) { return layers.cast(x, DType::f16); };
  const auto output = [&](ValueId x, const char* name) { graph.add_output(layers.cast(x, DType::f32), name); };
  output(remember_speed(layers, half(summary), half(pose), half(there)), "state");
  output(follow_speed(layers, half(plan), half(features)), "path");
  std::vector<Tensor> inputs;
  Random random(6);
  for (const Shape& shape : {Shape{1, 48}, Shape{1, 12}, Shape{1, 1}, Shape{1, 990}, Shape{1, kRows, kState}}) {
    inputs.emplace_back(DType::f32, shape);
    for (float& x : inputs.back().data<float>()) x = static_cast<float>(random.uniform(-2, 2));
  }
  inputs[1].data<float>()[0] = 14.5F, inputs[2].data<float>()[0] = 1;
  const auto set = [&](Tensor& states, int64_t row, float speed, bool was_there) {
    states.data<float>()[static_cast<size_t>(row * kState + 510)] = speed / 64;
    states.data<float>()[static_cast<size_t>(row * kState + 511)] = was_there ? 0.125F : 0;
  };
  for (int64_t row = 0; row < kRows; ++row) set(inputs[4], row, 20, row > 3);
  const std::vector<Tensor> first = interpret(graph, inputs);
  const std::span<const float> state = first[0].data<float>();
  EXPECT_NEAR(state[510] * 64, 14.5, 0.01);
  EXPECT_EQ(state[511], 0.125F);
  double squares = 0;
  for (size_t i = 0; i < 510; ++i) squares += static_cast<double>(state[i]) * state[i];
  EXPECT_NEAR(squares, 1, 0.01);

  const auto moved = [&](const std::function<void(Tensor&)>& change) {  // by point: x, speed, all others
    std::vector<Tensor> others = inputs;
    others[4] = inputs[4].clone();
    change(others[4]);
    const Tensor then = interpret(graph, others)[1];
    std::array<std::vector<double>, 3> out;
    for (size_t i = 0; i < 990; ++i) {
      const double by = static_cast<double>(then.data<float>()[i]) - first[1].data<float>()[i];
      out[i < 495 && i % 15 == 0 ? 0 : i < 495 && i % 15 == 3 ? 1 : 2].push_back(by);
    }
    for (const double by : out[2]) EXPECT_EQ(by, 0);
    return out;
  };
  const auto faster = moved([&](Tensor& states) {
    for (int64_t row = 0; row < kRows; ++row) set(states, row, 24, row > 3);
  });
  for (size_t i = 0; i < 33; ++i) {
    EXPECT_NEAR(faster[0][i], 4 * 10.0 * static_cast<double>(i * i) / 1024, 0.05) << i;
    EXPECT_NEAR(faster[1][i], 4, 0.02) << i;
  }
  const auto none = moved([&](Tensor& states) {
    set(states, 2, 31, false), set(states, 9, 23, true);  // before all lines
    for (int64_t i = 0; i < kRows * kState; ++i) {
      if (i % kState < 510) states.data<float>()[static_cast<size_t>(i)] *= 3;
    }
  });
  const auto past = moved([&](Tensor& states) { set(states, 15, 23, true); });
  double most = 0;
  for (size_t i = 0; i < 33; ++i) {
    EXPECT_EQ(none[0][i], 0) << i;
    EXPECT_EQ(none[1][i], 0) << i;
    most = std::max(most, std::abs(past[1][i]));
  }
  EXPECT_GT(most, 0.02);
}

// Each input alone affects the output of 0.9.7's network; pictures also affect its hidden state.
TEST(Zoo, OldSupercomboListensToEveryInput) {
  const Graph graph = build_zoo_model("tiny_supercombo");
  const std::vector<Tensor> inputs = random_inputs(graph, 1), others = random_inputs(graph, 2);
  const Tensor before = interpret(graph, inputs)[0];
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(graph.value(graph.inputs()[i]).name);
    std::vector<Tensor> changed = inputs;
    changed[i] = others[i];
    const Tensor after = interpret(graph, changed)[0];
    const auto moved = [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        if (load_element(DType::f16, before.raw(), k) != load_element(DType::f16, after.raw(), k)) return true;
      }
      return false;
    };
    EXPECT_TRUE(moved(0, 6504));
    EXPECT_EQ(moved(5992, 6504), i < 2);
  }
}

TEST(Zoo, WeightsDependOnTheSeedAlone) {
  const auto weights = [](uint64_t seed, int threads) {
    const ThreadScope scope(threads);
    const Graph graph = build_zoo_model("driving_policy", seed);
    std::string bytes;
    for (int i = 0; i < graph.value_count(); ++i) {
      const Tensor* constant = graph.constant(ValueId{i});
      if (constant) bytes.append(static_cast<const char*>(constant->raw()), static_cast<size_t>(constant->bytes()));
    }
    return bytes;
  };
  const std::string one = weights(1, 1);
  EXPECT_EQ(one, weights(1, 3));
  EXPECT_NE(one, weights(2, 1));
  // Known hash: another compiler or machine has to produce the same bytes.
  EXPECT_EQ(Fnv().text(one).value(), 17151503605915136480u);
}

TEST(Zoo, UnknownNamesAreRefusedWithTheKnownOnes) {
  try {
    build_zoo_model("driving_dream");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_NE(std::string(error.what()).find("driving_vision"), std::string::npos);
  }
}

}  // namespace
}  // namespace sparkpilot
