#include "route/log/model_compare.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "route/log/test_log.h"
#include "route/test_files.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace model_compare_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> wave(size_t length, float seed, float scale) {
  std::vector<float> out(length);
  for (size_t i = 0; i < length; ++i) out[i] = scale * std::sin(seed + 0.7f * static_cast<float>(i));
  return out;
}

Polyline polyline(float seed, float scale) {
  Polyline out{wave(33, seed, scale), wave(33, seed + 1, scale), wave(33, seed + 2, scale), {}, {}, {}, {}};
  for (int i = 0; i < 33; ++i) out.t.push_back(static_cast<float>(10.0 * i * i / 1024));
  return out;
}

// A message with something in every field.
ModelRecord record(uint32_t frame_id) {
  const float s = static_cast<float>(frame_id) * 0.01f;
  ModelRecord out;
  out.frame_id = frame_id;
  out.position = polyline(s, 50);
  for (auto* std : {&out.position.x_std, &out.position.y_std, &out.position.z_std}) *std = wave(33, s, 1);
  out.velocity = polyline(s + 3, 20);
  out.acceleration = polyline(s + 4, 2);
  out.orientation = polyline(s + 5, 0.3f);
  out.orientation_rate = polyline(s + 6, 0.1f);
  for (int i = 0; i < 4; ++i) out.lane_lines.push_back(polyline(s + 7 + static_cast<float>(i), 5));
  for (int i = 0; i < 2; ++i) out.road_edges.push_back(polyline(s + 12 + static_cast<float>(i), 8));
  for (Polyline& line : out.lane_lines) line.t[32] = kNan;
  out.lane_line_probs = wave(4, s, 0.5f), out.lane_line_stds = wave(4, s, 0.5f), out.road_edge_stds = wave(2, s, 0.5f);
  for (int i = 0; i < 3; ++i)
    out.leads.push_back({0.5f, 2.0f * static_cast<float>(i), wave(6, 0, 10), wave(6, s, 80), wave(6, s, 3),
                         wave(6, s, 20), wave(6, s, 2), wave(6, s, 5), wave(6, s, 2), wave(6, s, 1), wave(6, s, 1)});
  out.desire_state = wave(8, s, 1), out.desire_prediction = wave(32, s, 1);
  for (auto* list : {&out.brake_disengage, &out.gas_disengage, &out.steer_override, &out.hard_brake_3,
                     &out.hard_brake_4, &out.hard_brake_5})
    *list = wave(5, s, 0.5f);
  out.action = ActionRecord{0.001f, 0.3f, false};
  return out;
}

std::vector<ModelRecord> records(uint32_t from, uint32_t to) {
  std::vector<ModelRecord> out;
  for (uint32_t id = from; id < to; ++id) out.push_back(record(id));
  return out;
}

std::set<std::string> failed(const ModelComparison& comparison) {
  std::set<std::string> out;
  for (const FieldComparison& field : comparison.fields) {
    if (!field.ok) out.insert(field.name);
  }
  return out;
}

const FieldComparison& field(const ModelComparison& comparison, std::string_view name) {
  for (const FieldComparison& f : comparison.fields) {
    if (f.name == name) return f;
  }
  ADD_FAILURE() << "no field " << name;
  return comparison.fields.front();
}

TEST(ModelCompare, EqualLogsAreTheSame) {
  const auto list = records(10, 30);
  const ModelComparison same = compare_models(list, list);
  EXPECT_TRUE(same.ok());
  EXPECT_EQ(same.frames, 20);
  EXPECT_EQ(same.only_ours + same.only_reference + same.repeated, 0);
  EXPECT_EQ(same.fields.size(), model_fields().size());
  for (const FieldComparison& f : same.fields) {
    EXPECT_GT(f.values, 0) << f.name;
    EXPECT_EQ(f.max, 0) << f.name;
    EXPECT_TRUE(f.worst.empty()) << f.name;
    EXPECT_FALSE(f.absent_in_ours || f.absent_in_reference) << f.name;
  }
  EXPECT_EQ(field(same, "position_x").values, 20 * 33);
  EXPECT_EQ(field(same, "lane_lines_t").values, 20 * 4 * 32);  // NaN on both sides counts as equal
  EXPECT_EQ(field(same, "position_y_at_6_s").values, 20);
}

struct Disturbance {
  std::set<std::string> fields;
  std::function<void(ModelRecord&)> disturb;
};

TEST(ModelCompare, ADisturbedFieldFailsAndItsFrameIsNamed) {
  const Disturbance cases[] = {
      {{"position_x"}, [](ModelRecord& r) { r.position.x[32] += 5; }},
      {{"position_y", "position_y_at_1_s"}, [](ModelRecord& r) { r.position.y[10] += 5; }},
      {{"position_z_std"}, [](ModelRecord& r) { r.position.z_std[3] += 1; }},
      {{"velocity_x", "velocity_x_now"}, [](ModelRecord& r) { r.velocity.x[0] -= 1; }},
      {{"velocity_x"}, [](ModelRecord& r) { r.velocity.x[1] -= 1; }},
      {{"acceleration_x"}, [](ModelRecord& r) { r.acceleration.x[20] += 0.2f; }},
      {{"orientation_yaw"}, [](ModelRecord& r) { r.orientation.z[5] += 0.05f; }},
      {{"orientation_rate_pitch"}, [](ModelRecord& r) { r.orientation_rate.y[5] += 0.05f; }},
      {{"desired_curvature"}, [](ModelRecord& r) { r.action->curvature += 0.0005f; }},
      {{"desired_acceleration"}, [](ModelRecord& r) { r.action->acceleration -= 0.1f; }},
      {{"should_stop"}, [](ModelRecord& r) { r.action->should_stop = true; }},
      {{"lane_lines_y"}, [](ModelRecord& r) { r.lane_lines[2].y[7] += 0.3f; }},
      {{"lane_lines_t"}, [](ModelRecord& r) { r.lane_lines[0].t[31] = kNan; }},
      {{"lane_line_probs"}, [](ModelRecord& r) { r.lane_line_probs[1] += 0.1f; }},
      {{"road_edges_z"}, [](ModelRecord& r) { r.road_edges[1].z[7] += 0.3f; }},
      {{"leads_v"}, [](ModelRecord& r) { r.leads[2].v[5] += 3; }},
      {{"leads_v"}, [](ModelRecord& r) { r.leads[2].v.pop_back(); }},
      {{"lead_probs"}, [](ModelRecord& r) { r.leads[0].prob = 0.4f; }},
      {{"desire_prediction"}, [](ModelRecord& r) { r.desire_prediction[31] = kNan; }},
      {{"engaged_prob"}, [](ModelRecord& r) { r.engaged_prob = std::numeric_limits<float>::infinity(); }},
      {{"hard_brake_5_probs"}, [](ModelRecord& r) { r.hard_brake_5.clear(); }},
  };
  const auto reference = records(100, 120);
  for (const Disturbance& c : cases) {
    auto ours = reference;
    c.disturb(ours[13]);
    const ModelComparison comparison = compare_models(ours, reference);
    EXPECT_FALSE(comparison.ok());
    EXPECT_EQ(failed(comparison), c.fields);
    for (const std::string& name : c.fields) {
      const auto& worst = field(comparison, name).worst;
      ASSERT_EQ(worst.size(), 1u) << name;
      EXPECT_EQ(worst[0].frame_id, 113u) << name;
    }
  }
}

TEST(ModelCompare, WithinTheToleranceIsNoDifference) {
  const auto reference = records(0, 10);
  auto ours = reference;
  ours[4].engaged_prob += 0.019f;
  ours[7].engaged_prob += 0.01f;
  ModelComparison comparison = compare_models(ours, reference);
  EXPECT_TRUE(comparison.ok());
  const FieldComparison& f = field(comparison, "engaged_prob");
  EXPECT_NEAR(*f.max, 0.019, 1e-6);
  EXPECT_NEAR(*f.mean_abs, 0.0029, 1e-6);
  EXPECT_NEAR(*f.rms, std::sqrt((0.019 * 0.019 + 0.01 * 0.01) / 10), 1e-6);
  EXPECT_EQ(f.worst[0].frame_id, 4u);
  EXPECT_EQ(f.worst[1].frame_id, 7u);

  Tolerances half;
  half.scale(0.5);
  comparison = compare_models(ours, reference, half);
  EXPECT_EQ(failed(comparison), std::set<std::string>{"engaged_prob"});
  EXPECT_EQ(field(comparison, "engaged_prob").beyond, 1);
}

TEST(ModelCompare, FramesOfOneSideAreCounted) {
  auto ours = records(0, 30);
  ours.push_back(record(29));
  const auto reference = records(20, 45);
  const ModelComparison comparison = compare_models(ours, reference);
  EXPECT_EQ(failed(comparison), std::set<std::string>());
  EXPECT_FALSE(comparison.ok()) << "ours lacks frames of the reference";
  EXPECT_NE(verdict(comparison).find("not the same, frames of the reference are missing"), std::string::npos);
  EXPECT_TRUE(compare_models(ours, records(20, 30)).ok());
  EXPECT_EQ(comparison.frames, 10);
  EXPECT_EQ(comparison.only_ours, 20);
  EXPECT_EQ(comparison.only_reference, 15);
  EXPECT_EQ(comparison.repeated, 1);
  EXPECT_FALSE(compare_models(ours, records(50, 60)).ok());
  EXPECT_FALSE(compare_models({}, {}).ok());
}

TEST(ModelCompare, OfSeveralRecordsOfAFrameTheLastCounts) {
  auto all = records(3, 5);
  all.push_back(record(3));
  const auto found = by_frame(all);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at(3), &all[2]);
  EXPECT_EQ(found.at(4), &all[1]);
}

TEST(ModelCompare, WhatTheReferenceNeverHadIsSaid) {
  const auto full = records(0, 10);
  auto without = full;
  for (ModelRecord& r : without) r.action.reset();
  const ModelComparison older = compare_models(full, without);
  EXPECT_TRUE(older.ok());
  EXPECT_TRUE(field(older, "desired_curvature").absent_in_reference);
  const ModelComparison lost = compare_models(without, full);
  EXPECT_FALSE(lost.ok());
  EXPECT_TRUE(field(lost, "desired_curvature").absent_in_ours);
  EXPECT_EQ(field(lost, "desired_curvature").outcome(), Outcome::beyond);
}

const std::vector<std::string>& row(const ComparisonTable& table, std::string_view field) {
  static const std::vector<std::string> none(16);
  for (const auto& cells : table.rows) {
    if (cells[0] == field) return cells;
  }
  ADD_FAILURE() << "no row " << field;
  return none;
}

TEST(ModelCompare, WhatTheReferenceLacksIsNotCompared) {
  const auto full = records(0, 10);
  auto without = full;
  for (ModelRecord& r : without) r.action.reset();
  const ModelComparison older = compare_models(full, without);
  EXPECT_EQ(field(older, "desired_curvature").outcome(), Outcome::not_compared);
  EXPECT_EQ(field(older, "position_x").outcome(), Outcome::within);
  const auto json = to_json(older);
  EXPECT_EQ(json["fields"]["desired_curvature"]["outcome"], "not compared");
  EXPECT_TRUE(json["fields"]["desired_curvature"]["ok"].is_null());
  EXPECT_EQ(json["fields"]["position_x"]["outcome"], "within");
  EXPECT_EQ(json["fields"]["position_x"]["ok"], true);
  const ComparisonTable table = table_of(older);
  EXPECT_EQ(row(table, "desired_curvature")[1], "not compared");
  EXPECT_EQ(row(table, "desired_curvature").back(), "not in the reference");
  EXPECT_EQ(row(table, "position_x")[1], "within");
  EXPECT_EQ(table.rows.back()[1], "not compared") << "those not compared come last";

  // A reference whose messages are empty is refused.
  std::vector<ModelRecord> empty(1);
  ModelComparison nothing = compare_models(full, empty);
  std::erase_if(nothing.fields, [](const FieldComparison& f) { return f.outcome() != Outcome::not_compared; });
  EXPECT_FALSE(nothing.ok());
}

TEST(ModelCompare, ADriverThatTheReferenceNeverWatchedIsNotCompared) {
  std::vector<DriverRecord> ours(3);
  for (uint32_t i = 0; i < 3; ++i) {
    ours[i].frame_id = i;
    ours[i].left.orientation = {0.1F, 0.2F, 0.3F};
  }
  const auto compared = [&](const std::vector<DriverRecord>& reference) {
    ModelComparison out = compare_models(records(0, 5), records(0, 5));
    compare_drivers(ours, reference, Tolerances(), out);
    return out;
  };
  const ModelComparison alone = compared({}), both = compared(ours);
  const std::string name = driver_fields()[0].info.name;
  EXPECT_EQ(field(alone, name).outcome(), Outcome::not_compared);
  EXPECT_EQ(row(table_of(alone), name)[1], "not compared");
  EXPECT_TRUE(alone.ok());
  EXPECT_EQ(field(both, name).outcome(), Outcome::within);
}

TEST(ModelCompare, BothWaysRoundAreEqual) {
  uint32_t seed = 1;
  const auto random = [&] {
    return static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f;
  };
  for (int round = 0; round < 20; ++round) {
    auto a = records(0, 12), b = records(3, 15);
    for (ModelRecord& r : a) {
      for (auto* list : {&r.position.x, &r.velocity.y, &r.lane_lines[1].z, &r.desire_state, &r.leads[0].x})
        (*list)[seed % list->size()] += random();
    }
    if (round % 3 == 0) a[5].position.y[3] = kNan;
    if (round % 4 == 0) b[5].road_edges[0].y.resize(12);
    const ModelComparison ab = compare_models(a, b), ba = compare_models(b, a);
    EXPECT_EQ(ab.only_ours, ba.only_reference);
    for (size_t i = 0; i < ab.fields.size(); ++i) {
      EXPECT_EQ(ab.fields[i].max, ba.fields[i].max);
      EXPECT_EQ(ab.fields[i].p99, ba.fields[i].p99);
      EXPECT_EQ(ab.fields[i].beyond, ba.fields[i].beyond);
      EXPECT_EQ(ab.fields[i].nan_differences, ba.fields[i].nan_differences);
      EXPECT_EQ(ab.fields[i].ok, ba.fields[i].ok);
    }
  }
}

TEST(ModelCompare, ToleranceFiles) {
  const TempFolder folder;
  const auto load = [&](const std::string& text) {
    write_text(folder / "tolerances.json", text);
    return Tolerances::load(folder / "tolerances.json");
  };
  const Tolerances some = load(R"({"position_x": {"absolute": 3}, "velocity_x": {"absolute": 0, "relative": 0.5}})");
  EXPECT_EQ(some[0].absolute, 3);
  EXPECT_EQ(some[0].relative, Tolerances()[0].relative);
  const auto refused = [&](const std::string& text) -> std::string {
    try {
      load(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      EXPECT_NE(std::string(error.what()).find("tolerances.json"), std::string::npos) << error.what();
      return error.what();
    }
    return "taken";
  };
  EXPECT_NE(refused(R"({"positon_x": {"absolute": 1}})").find("position_x, position_y"), std::string::npos);
  EXPECT_EQ(refused(R"({"positon_x": {"absolute": 1}})").find("velocity"), std::string::npos);
  EXPECT_NE(refused(R"({"xyz": {}})").find("velocity_x"), std::string::npos);
  for (const char* bad : {"", "[]", "3", R"({"position_x": 1})", R"({"position_x": {"absolute": -1}})",
                          R"({"position_x": {"absolute": "1"}})", R"({"position_x": {"absolut": 1}})",
                          R"({"position_x": {"absolute": 1e999}})"})
    EXPECT_NE(refused(bad), "taken") << bad;
  EXPECT_THROW(Tolerances().scale(-1), Error);
  EXPECT_THROW(Tolerances().scale(std::numeric_limits<double>::quiet_NaN()), Error);
}

TEST(ModelCompare, JsonAndText) {
  const auto reference = records(0, 10);
  auto ours = reference;
  ours[4].engaged_prob = 0.5f;
  ours[6].leads[1].x.clear();
  for (ModelRecord& r : ours) r.action.reset();
  const ModelComparison comparison = compare_models(ours, reference);
  const auto json = to_json(comparison);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["frames"], 10);
  EXPECT_EQ(json["fields"]["engaged_prob"]["worst"][0]["frame_id"], 4);
  EXPECT_NEAR(json["fields"]["engaged_prob"]["max"], 0.5, 1e-6);
  EXPECT_TRUE(json["fields"]["leads_x"]["worst"][0]["difference"].is_null());
  EXPECT_EQ(json["fields"]["leads_x"]["frames_of_other_lengths"], 1);
  EXPECT_EQ(json["fields"]["position_x"]["unit"], "m");
  EXPECT_EQ(verdict(comparison), "10 frames compared, 0 only in ours, 0 only in the reference: not the same");
  const ComparisonTable table = table_of(comparison);
  EXPECT_LT(&row(table, "engaged_prob"), &row(table, "position_x"));
  EXPECT_EQ(row(table, "engaged_prob")[1], "beyond");
  EXPECT_EQ(row(table, "leads_x").back(), "6; 1 frames of other lengths");
  EXPECT_EQ(row(table, "desired_curvature").back(), "not in ours");
  for (const auto& cells : table.rows) EXPECT_EQ(cells.size(), table.headings.size());
  EXPECT_NE(verdict(compare_models({}, {})).find("0 frames"), std::string::npos);
  EXPECT_EQ(to_text(Tolerance{0.05, 0.02}), "0.05 + 2 %");
}

TEST(ModelCompare, ReadsLogsAndFolders) {
  const TempFolder folder;
  for (const char* segment : {"0000010e--5b26bc3be7--0", "0000010e--5b26bc3be7--1"})
    std::filesystem::create_directories(folder / segment);
  write_models(folder / "0000010e--5b26bc3be7--0/rlog.zst", 0, 5);
  write_models(folder / "0000010e--5b26bc3be7--1/rlog", 5, 9);
  EXPECT_EQ(read_models(folder / "0000010e--5b26bc3be7--0/rlog.zst").size(), 5u);
  EXPECT_EQ(read_models(folder.path()).size(), 9u);
  EXPECT_EQ(read_models(folder.path()).back().frame_id, 8u);

  const auto log = folder / "0000010e--5b26bc3be7--1/rlog";
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 100);
  std::vector<std::string> notes;
  EXPECT_EQ(read_models(folder / "0000010e--5b26bc3be7--1", &notes).size(), 4u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("cut"), std::string::npos);
  EXPECT_THROW(read_models(folder / "none"), Error);
}

TEST(ModelCompare, DemoRouteIsLikeItself) {
  const auto log = asset("route_demo/qlog.bz2");
  if (log.empty()) GTEST_SKIP() << "the demo route is not here";
  const auto models = read_models(log);
  EXPECT_EQ(models.size(), 31u);
  const ModelComparison comparison = compare_models(models, models);
  EXPECT_TRUE(comparison.ok()) << verdict(comparison);
  EXPECT_EQ(comparison.frames, 31);
}

}  // namespace model_compare_test
}  // namespace sparkpilot::drive
