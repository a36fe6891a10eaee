#include "route/contract/outputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "route/test_files.h"
#include "sparkpilot/error.h"
#include "tensor/npy.h"

namespace sparkpilot::drive {
namespace outputs_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

OutputSlices slices_of(std::initializer_list<std::pair<const char*, int64_t>> widths) {
  OutputSlices out;
  int64_t at = 0;
  for (const auto& [head, width] : widths) {
    out.emplace_back(head, OutputSlice{.start = at, .stop = at + width});
    at += width;
  }
  return out;
}

OutputSlices joined(OutputSlices slices, std::string head, OutputSlice slice) {
  slices.emplace_back(std::move(head), slice);
  return slices;
}

// A network of an era: its heads as in openpilot's metadata, and its output values.
struct Case {
  std::string name;
  OutputSlices slices;
  int64_t width = 0;
};

std::vector<Case> networks() {
  const OutputSlices supercombo = slices_of({{"plan", 4955},
                                             {"lane_lines", 528},
                                             {"lane_lines_prob", 8},
                                             {"road_edges", 264},
                                             {"lead", 102},
                                             {"lead_prob", 3},
                                             {"desire_state", 8},
                                             {"meta", 48},
                                             {"desire_pred", 32},
                                             {"pose", 12},
                                             {"wide_from_device_euler", 6},
                                             {"sim_pose", 12},
                                             {"road_transform", 12},
                                             {"desired_curvature", 2},
                                             {"hidden_state", 512}});
  const auto vision = [](int64_t lead) {
    return slices_of({{"meta", 55},
                      {"desire_pred", 32},
                      {"pose", 12},
                      {"wide_from_device_euler", 6},
                      {"road_transform", 12},
                      {"lane_lines", 528},
                      {"lane_lines_prob", 8},
                      {"road_edges", 264},
                      {"lead", lead},
                      {"lead_prob", 3},
                      {"hidden_state", 512}});
  };
  const OutputSlice last_two{.start = -2};
  const OutputSlices merged =
      joined(joined(vision(144), "plan", {.start = 1576, .stop = 2566}), "desire_state", {.start = 2566, .stop = 2574});
  return {
      {"A", supercombo, 6504},
      {"B_vision", joined(vision(102), "pad", last_two), 1536},
      {"B_policy",
       joined(slices_of({{"plan", 4955}, {"desire_state", 8}, {"desired_curvature", 2}}), "pad", {.start = -3}), 4968},
      {"C_vision", joined(vision(144), "pad", {.start = 0}), 1576},
      {"C_policy", joined(slices_of({{"plan", 990}, {"desire_state", 8}}), "pad", last_two), 1000},
      {"D", joined(merged, "pad", last_two), 2576},
      {"D_action", joined(merged, "action", {.start = 2574, .stop = 2576}), 2576},
  };
}

// Ordinary outputs, large ones (a log deviation above 11 is clamped), equal ones, and non-finite ones.
std::vector<std::vector<float>> raw_cases(int64_t width, Random& random) {
  std::vector<std::vector<float>> out;
  for (const double spread : {1.0, 4.0, 50.0}) {
    std::vector<float>& row = out.emplace_back(static_cast<size_t>(width));
    for (float& value : row) value = static_cast<float>(spread * random.normal());
  }
  out.emplace_back(static_cast<size_t>(width), 0.5F);
  for (size_t i = 1; i < static_cast<size_t>(width); i += 2) out.back()[i] = -0.25F;
  out.emplace_back(static_cast<size_t>(width), -kInfinity);
  out.emplace_back(static_cast<size_t>(width), kNan);
  for (const float odd : {kNan, kInfinity, -kInfinity}) {
    out.push_back(out.front());
    for (size_t i = 0; i < static_cast<size_t>(width); i += 41) out.back()[i] = odd;
  }
  return out;
}

class Heads {
 public:
  void add(const std::string& name, std::span<const float> values) {
    std::vector<float>& all = heads_[name];
    all.insert(all.end(), values.begin(), values.end());
  }
  template <size_t N>
  void add(const std::string& name, const Gaussian<N>& values) {
    add(name, values.mean);
    add(name + "_std", values.std);
  }
  void add(const ModelOutputs& out, const std::set<std::string>& has) {
    if (has.contains("plan")) add("plan", out.plan);
    if (has.contains("desire_state")) add("desire_state", out.desire_state);
    if (out.sim_pose) add("sim_pose", *out.sim_pose);
    if (out.action) add("action", *out.action);
    if (out.desired_curvature) add("desired_curvature", {&*out.desired_curvature, 1});
    if (has.contains("meta")) add_vision(out);
  }
  void save(const TempFolder& folder, int64_t rows) const {
    for (const auto& [name, values] : heads_) {
      save_npy(folder / (name + ".npy"), {DType::f32, Shape{rows, std::ssize(values) / rows}, values.data()});
    }
  }

 private:
  void add_vision(const ModelOutputs& out) {
    add("lane_lines", out.lane_lines);
    add("road_edges", out.road_edges);
    add("lead", out.leads);
    add("lane_lines_prob", out.lane_line_probs);
    add("lead_prob", out.lead_probs);
    add("desire_pred", out.desire_pred);
    add("pose", out.pose);
    add("road_transform", out.road_transform);
    add("wide_from_device_euler", out.wide_from_device_euler);
    add("hidden_state", out.hidden_state);
    const MetaOutputs& meta = out.meta;
    add("engaged", {&meta.engaged, 1});
    add("gas_disengage", meta.gas_disengage);
    add("brake_disengage", meta.brake_disengage);
    add("steer_override", meta.steer_override);
    add("hard_brake_3", meta.hard_brake_3);
    add("hard_brake_4", meta.hard_brake_4);
    add("hard_brake_5", meta.hard_brake_5);
    add("gas_press", meta.gas_press);
    if (!meta.brake_press.empty()) add("brake_press", meta.brake_press);
  }

  std::map<std::string, std::vector<float>> heads_;
};

class OutputsNumpy : public testing::TestWithParam<size_t> {};

// tests/reference/parse_outputs.py computes every head independently.
TEST_P(OutputsNumpy, EveryHeadAsNumpyHasIt) {
  if (std::system("python3 -c 'import numpy' >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 has no numpy";
  const Case network = networks()[GetParam()];
  const OutputParser parser(network.slices, network.width, network.name);
  Random random(7 + GetParam());
  const std::vector<std::vector<float>> cases = raw_cases(network.width, random);
  std::vector<float> raw;
  Heads heads;
  for (const std::vector<float>& row : cases) {
    ModelOutputs out;
    parser.parse(row, out);
    heads.add(out, parser.heads());
    raw.insert(raw.end(), row.begin(), row.end());
  }
  const TempFolder folder;
  heads.save(folder, std::ssize(cases));
  save_npy(folder / "raw.npy", {DType::f32, Shape{std::ssize(cases), network.width}, raw.data()});
  nlohmann::json slices;
  for (const auto& [head, slice] : network.slices) {
    slices[head] = {slice.start.value_or(0), slice.stop ? nlohmann::json(*slice.stop) : nlohmann::json()};
  }
  write_text(folder / "slices.json", nlohmann::json{{"network", network.name}, {"slices", slices}}.dump());
  const std::filesystem::path metadata = asset("openpilot_metadata");
  std::string command = "python3 '" SPARKPILOT_SOURCE_DIR "/tests/reference/parse_outputs.py' '";
  command += folder.path().string() + "'" + (metadata.empty() ? "" : " --metadata '" + metadata.string() + "'");
  EXPECT_EQ(std::system((command + " >&2").c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Eras, OutputsNumpy, testing::Range<size_t>(0, 7),
                         [](const auto& at) { return networks()[at.param].name; });

// --- values computed by hand

std::vector<float> zeros(const Case& network) { return std::vector<float>(static_cast<size_t>(network.width)); }

TEST(Outputs, AGaussianHeadIsMeansThenLogDeviations) {
  const Case policy = networks()[4];
  std::vector<float> raw = zeros(policy);
  raw[0] = 3;
  raw[15 * 32 + 14] = -2;  // the last point's yaw rate
  raw[495] = std::log(0.5F);
  raw[496] = 11.5F;
  raw[497] = kInfinity;
  raw[498] = -kInfinity;
  raw[499] = kNan;
  ModelOutputs out;
  OutputParser(policy.slices, policy.width, "m").parse(raw, out);
  EXPECT_EQ(out.plan.mean[0], 3);
  EXPECT_EQ(out.plan.mean[494], -2);
  EXPECT_FLOAT_EQ(out.plan.std[0], 0.5F);
  EXPECT_FLOAT_EQ(out.plan.std[1], 59874.1417F);  // e^11
  EXPECT_FLOAT_EQ(out.plan.std[2], 59874.1417F);
  EXPECT_EQ(out.plan.std[3], 0);
  EXPECT_TRUE(std::isnan(out.plan.std[4])) << "a network that broke must be seen to be broken";
  EXPECT_EQ(out.plan.std[5], 1);
}

TEST(Outputs, ThePlanIsItsHeaviestHypothesis) {
  const Case policy = networks()[2];
  std::vector<float> raw = zeros(policy);
  for (size_t h = 0; h < 5; ++h) raw[h * 991] = static_cast<float>(10 + h);
  ModelOutputs out;
  const OutputParser parser(policy.slices, policy.width, "m");
  parser.parse(raw, out);
  EXPECT_EQ(out.plan.mean[0], 10) << "of equal weights the first";
  raw[3 * 991 + 990] = 0.1F;
  raw[3 * 991 + 495] = 2;
  parser.parse(raw, out);
  EXPECT_EQ(out.plan.mean[0], 13);
  EXPECT_FLOAT_EQ(out.plan.std[0], std::exp(2.0F));
}

TEST(Outputs, EachLeadTakesTheHypothesisThatIsHeaviestForIt) {
  const Case vision = networks()[1];
  std::vector<float> raw = zeros(vision);
  constexpr size_t kLead = 917, kStride = 51, kWeights = 48;
  raw[kLead] = 20;
  raw[kLead + kStride] = 80;
  raw[kLead + kWeights + 0] = 1;            // lead now: the first hypothesis
  raw[kLead + kStride + kWeights + 1] = 1;  // lead in 2 s: the second; in 4 s: equal
  ModelOutputs out;
  OutputParser(vision.slices, vision.width, "m").parse(raw, out);
  EXPECT_EQ(out.leads.mean[0], 20);
  EXPECT_EQ(out.leads.mean[24], 80);
  EXPECT_EQ(out.leads.mean[48], 80) << "of equal weights the last, as openpilot's sort leaves them";
}

TEST(Outputs, ProbabilitiesAndWhereTheyLie) {
  const Case vision = networks()[3];
  std::vector<float> raw = zeros(vision);
  raw[0] = std::log(3.0F);               // engaged: 3 / 4
  raw[6] = std::log(4.0F);               // braking with 5 m/s^2 within 2 s: 4 / 5
  raw[1 + 6 * 4 + 1] = -std::log(9.0F);  // brake pressed by the driver within 10 s: 1 / 10
  raw[31 + 4 * 5] = 100;                 // gas pressed in 10 s
  raw[32 + 4 * 5] = -100;                // brake pressed in 10 s
  raw[645 + 1] = std::log(3.0F);         // far left line; the value before it is another probability
  raw[645 + 6] = 50;                     // not the far right line's
  for (size_t i = 0; i < 8; ++i) raw[55 + 8 + i] = i == 5 ? std::log(9.0F) : 0;  // desire in 2 s
  ModelOutputs out;
  OutputParser(vision.slices, vision.width, "m").parse(raw, out);
  EXPECT_FLOAT_EQ(out.meta.engaged, 0.75F);
  EXPECT_FLOAT_EQ(out.meta.hard_brake_5[0], 0.8F);
  EXPECT_FLOAT_EQ(out.meta.brake_disengage[4], 0.1F);
  EXPECT_FLOAT_EQ(out.meta.gas_press[5], 1);
  EXPECT_FLOAT_EQ(out.meta.brake_press[5], 1 / (1 + 59874.1417F)) << "the exponential is cut at 11 here, too";
  EXPECT_FLOAT_EQ(out.lane_line_probs[0], 0.75F);
  EXPECT_FLOAT_EQ(out.lane_line_probs[3], 0.5F);
  EXPECT_FLOAT_EQ(out.desire_pred[8 + 5], 9.0F / 16);
  EXPECT_FLOAT_EQ(out.desire_pred[8], 1.0F / 16);
  EXPECT_FLOAT_EQ(out.desire_pred[0], 1.0F / 8);
  EXPECT_FALSE(out.sim_pose || out.action || out.desired_curvature);
}

TEST(Outputs, TheOlderMetaIsAnotherOne) {
  const Case network = networks()[0];
  std::vector<float> raw = zeros(network);
  raw[5868 + 7 * 4 + 3] = std::log(3.0F);  // steering taken over within 10 s
  raw[5868 + 7 * 4 + 7] = std::log(4.0F);  // gas pressed within 10 s
  raw[5990] = 0.01F;
  ModelOutputs out;
  OutputParser(network.slices, network.width, "m").parse(raw, out);
  EXPECT_FLOAT_EQ(out.meta.steer_override[4], 0.75F);
  ASSERT_EQ(out.meta.gas_press.size(), 5U);
  EXPECT_FLOAT_EQ(out.meta.gas_press[4], 0.8F);
  EXPECT_TRUE(out.meta.brake_press.empty());
  EXPECT_TRUE(out.sim_pose);
  EXPECT_FLOAT_EQ(out.desired_curvature.value(), 0.01F);
}

TEST(Outputs, OneNetworksHeadsLeaveTheOthersAlone) {
  ModelOutputs out;
  for (const size_t i : {3U, 4U}) {
    const Case network = networks()[i];
    const std::vector<float> raw(static_cast<size_t>(network.width), 1);
    OutputParser(network.slices, network.width, "m").parse(raw, out);
  }
  EXPECT_EQ(out.plan.mean[7], 1);
  EXPECT_EQ(out.hidden_state[511], 1);
}

std::string refusal(const OutputSlices& slices, int64_t width) {
  try {
    const OutputParser parser(slices, width, "m.onnx");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "taken";
}

TEST(Outputs, SlicesThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal({{"lead_prob", {.start = 0, .stop = 3}}}, 3), "taken");
  EXPECT_EQ(refusal({{"lead_prob", {.start = 0, .stop = 3}}}, 2),
            "m.onnx: head \"lead_prob\" is not inside the output of 2 values");
  EXPECT_EQ(refusal({{"lead_prob", {.start = 5, .stop = 5}}}, 9),
            "m.onnx: head \"lead_prob\" is not inside the output of 9 values");
  EXPECT_EQ(refusal({{"plan", {.start = 0, .stop = 991}}}, 1000),
            "m.onnx: head \"plan\" has 991 values, expected 990 or 4955");
  EXPECT_EQ(refusal({{"hidden_state", {.start = -511}}}, 1000),
            "m.onnx: head \"hidden_state\" has 511 values, expected 512");
  EXPECT_NE(refusal({{"desire_state", {.start = 0, .stop = 16, .step = 2}}}, 16).find("step"), std::string::npos);
  EXPECT_EQ(refusal({{"a_head_of_tomorrow", {.start = 0, .stop = 7}}}, 16), "taken");
}

TEST(Outputs, AnOutputOfAnotherWidthIsOurFault) {
  const OutputParser parser({{"lead_prob", {.start = 0, .stop = 3}}}, 3, "m");
  ModelOutputs out;
  const std::vector<float> raw(4);
  EXPECT_THROW(parser.parse(raw, out), Error);
}

}  // namespace outputs_test
}  // namespace sparkpilot::drive
