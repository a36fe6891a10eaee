// Driving terms against plain loops over random records.
#include "compare/driving.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/random.h"
#include "base/test_files.h"
#include "drive/segment_result.h"
#include "route/log/test_log.h"

namespace sparkpilot::compare {
namespace {

using drive::ModelRecord;

constexpr float kTimes[] = {0, 0.5F, 1, 2, 3, 4, 6, 10};  // the horizons are among them

ModelRecord random_record(uint32_t frame_id, Random& random) {
  ModelRecord r;
  r.frame_id = frame_id;
  for (const float t : kTimes) {
    r.position.t.push_back(t);
    r.position.x.push_back(static_cast<float>(20 * t + random.normal()));
    r.position.y.push_back(static_cast<float>(random.normal()));
  }
  for (int line = 0; line < 4; ++line) {
    drive::Polyline p;
    for (const float x : {0.0F, 10.0F, 29.0F, 31.0F, 90.0F}) {
      p.x.push_back(x);
      p.y.push_back(static_cast<float>(random.normal()));
    }
    r.lane_lines.push_back(p);
    r.lane_line_probs.push_back(static_cast<float>(random.uniform()));
  }
  drive::LeadRecord lead;
  lead.prob = static_cast<float>(random.uniform());
  lead.x = {static_cast<float>(40 + random.normal())};
  lead.v = {static_cast<float>(20 + random.normal())};
  r.leads.push_back(lead);
  for (int i = 0; i < 8; ++i) r.desire_state.push_back(static_cast<float>(random.uniform()));
  r.engaged_prob = static_cast<float>(random.uniform());
  r.action = drive::ActionRecord{static_cast<float>(random.normal()), static_cast<float>(random.normal()),
                                 random.uniform() < 0.3};
  return r;
}

const Term& term(const DrivingTerms& terms, std::string_view name) {
  return *std::find_if(terms.terms.begin(), terms.terms.end(), [&](const Term& t) { return t.name == name; });
}
const Decision& decision(const DrivingTerms& terms, std::string_view name) {
  return *std::find_if(terms.decisions.begin(), terms.decisions.end(), [&](const auto& d) { return d.name == name; });
}

void expect_statistics(const Term& got, std::vector<double> values) {
  ASSERT_EQ(got.frames, std::ssize(values)) << got.name;
  double sum = 0;
  for (const double v : values) sum += v;
  EXPECT_NEAR(*got.mean, sum / static_cast<double>(values.size()), 1e-9) << got.name;
  std::sort(values.begin(), values.end());
  EXPECT_NEAR(*got.max, values.back(), 1e-12) << got.name;
  EXPECT_NEAR(*got.p99, values[static_cast<size_t>(std::ceil(0.99 * static_cast<double>(values.size()))) - 1], 1e-12);
}

TEST(DrivingTerms, AreWhatPlainLoopsGive) {
  Random random(5);
  std::vector<ModelRecord> ours, reference;
  for (uint32_t id = 1; id <= 137; ++id) {
    if (id % 10 != 0) ours.push_back(random_record(id, random));
    if (id % 7 != 0) reference.push_back(random_record(id, random));
  }
  const DrivingTerms terms = driving_terms(ours, reference);
  std::vector<double> plan4, left, lead, curvature;
  int64_t both = 0, desire = 0, engaged = 0, stop = 0, leads = 0;
  for (const ModelRecord& a : ours) {
    const auto found = std::find_if(reference.begin(), reference.end(),
                                    [&](const ModelRecord& r) { return r.frame_id == a.frame_id; });
    if (found == reference.end()) continue;
    const ModelRecord& b = *found;
    ++both;
    plan4.push_back(std::hypot(double{a.position.x[5]} - b.position.x[5], double{a.position.y[5]} - b.position.y[5]));
    if (b.lane_line_probs[1] >= 0.5F) {
      double sum = 0;
      for (size_t i = 0; i < 3; ++i) sum += std::abs(double{a.lane_lines[1].y[i]} - b.lane_lines[1].y[i]);
      left.push_back(100 * sum / 3);
    }
    if (a.leads[0].prob >= 0.5F && b.leads[0].prob >= 0.5F)
      lead.push_back(std::abs(double{a.leads[0].x[0]} - b.leads[0].x[0]));
    curvature.push_back(std::abs(double{a.action->curvature} - b.action->curvature));
    const auto likeliest = [](const ModelRecord& r) {
      return std::max_element(r.desire_state.begin(), r.desire_state.end()) - r.desire_state.begin();
    };
    desire += likeliest(a) != likeliest(b);
    engaged += (a.engaged_prob >= 0.5F) != (b.engaged_prob >= 0.5F);
    leads += (a.leads[0].prob >= 0.5F) != (b.leads[0].prob >= 0.5F);
    stop += a.action->should_stop != b.action->should_stop;
  }
  EXPECT_EQ(terms.frames, both);
  EXPECT_EQ(terms.only_ours, std::ssize(ours) - both);
  EXPECT_EQ(terms.only_reference, std::ssize(reference) - both);
  expect_statistics(term(terms, "plan at 4 s"), plan4);
  expect_statistics(term(terms, "left lane line"), left);
  expect_statistics(term(terms, "lead distance"), lead);
  expect_statistics(term(terms, "curvature"), curvature);
  EXPECT_EQ(std::ssize(decision(terms, "desire").flips), desire);
  EXPECT_EQ(std::ssize(decision(terms, "engaged").flips), engaged);
  EXPECT_EQ(std::ssize(decision(terms, "lead").flips), leads);
  EXPECT_EQ(std::ssize(decision(terms, "stop").flips), stop);
}

TEST(DrivingTerms, OfTheSameRecordsAreZero) {
  Random random(7);
  std::vector<ModelRecord> records;
  for (uint32_t id = 0; id < 30; ++id) records.push_back(random_record(id, random));
  const DrivingTerms terms = driving_terms(records, records);
  for (const Term& t : terms.terms) {
    EXPECT_GT(t.frames, 0) << t.name;
    EXPECT_EQ(*t.max, 0) << t.name;
  }
  for (const Decision& d : terms.decisions) EXPECT_TRUE(d.flips.empty()) << d.name;
}

// What a log does not have is not compared, and broken lists are no crash.
TEST(DrivingTerms, LeaveOutWhatIsMissingOrBroken) {
  Random random(9);
  ModelRecord bare;
  bare.frame_id = 3;
  const ModelRecord full = random_record(3, random);
  const std::vector<ModelRecord> a{bare}, b{full};
  for (const auto& [ours, theirs] : {std::pair{&a, &b}, {&b, &a}}) {
    const DrivingTerms terms = driving_terms(*ours, *theirs);
    EXPECT_EQ(terms.frames, 1);
    for (const Term& t : terms.terms) {
      EXPECT_EQ(t.frames, 0) << t.name;
      EXPECT_FALSE(t.mean || t.max || t.p99) << t.name;
    }
    EXPECT_EQ(decision(terms, "desire").frames, 0);
    EXPECT_EQ(term(terms, "plan at 6 s").only_reference, theirs == &b ? 1 : 0);
  }
  ModelRecord broken = full;
  broken.position.x.pop_back();
  broken.lane_lines.resize(1);
  broken.leads[0].prob = 1;
  broken.leads[0].x.clear();
  broken.action->curvature = std::numeric_limits<float>::quiet_NaN();
  const std::vector<ModelRecord> c{broken};
  const DrivingTerms terms = driving_terms(c, b);
  for (const char* name : {"plan at 1 s", "left lane line", "lead distance", "curvature"}) {
    EXPECT_EQ(term(terms, name).frames, 0) << name;
  }
  EXPECT_EQ(term(terms, "plan at 1 s").only_reference, 1);
  EXPECT_EQ(term(terms, "curvature").only_reference, 1);
  EXPECT_EQ(driving_terms({}, b).only_reference, 1);
}

TEST(ReadDrive, SaysWhatIsMissing) {
  const TempFolder folder;
  const auto error = [](const std::filesystem::path& path) -> std::string {
    try {
      read_drive(path, nullptr);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  EXPECT_NE(error(folder / "nothing").find("no such file or folder"), std::string::npos);
  EXPECT_NE(error(folder.path()), "");
  write_text(folder / "rlog", "");
  EXPECT_NE(error(folder / "rlog").find("is empty, expected a log"), std::string::npos);
}

TEST(ReadDrive, OfOneRunAndRoute) {
  const TempFolder folder;
  const auto segment = [&](int number, const std::string& run, bool left_out = false) {
    const std::filesystem::path to = folder / fmt::format("2024-01-02--03-04-05--{}", number);
    std::filesystem::create_directories(to);
    const auto frame = static_cast<uint32_t>(number);
    drive::write_models(to / "rlog.zst", frame, frame + 1);
    drive::SegmentResult result;
    result.number = number, result.run = run, result.left_out = left_out;
    write_text(to / "segment.json", drive::to_json(result).dump());
  };
  segment(0, "old");
  segment(1, "new");
  segment(2, "new", true);  // with the log of an earlier run
  std::vector<std::string> notes;
  const auto frames = [&](const Only& only) {
    std::vector<uint32_t> ids;
    notes.clear();
    const Drive drive = read_drive(
        folder.path(), [&](const std::string& note) { notes.push_back(note); }, only);
    for (const ModelRecord& record : drive.models) ids.push_back(record.frame_id);
    return ids;
  };
  using Ids = std::vector<uint32_t>;
  EXPECT_EQ(frames({}), (Ids{0, 1}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("segments of different runs"), std::string::npos);
  EXPECT_EQ(frames({.run = "new"}), Ids{1});
  EXPECT_TRUE(notes.empty());
  drive::Route route = drive::find_route(folder.path().string());
  route.segments.resize(1);
  EXPECT_EQ(frames({.route = &route}), Ids{0});
  route.segments[0].number = 7;
  EXPECT_EQ(frames({.route = &route}), (Ids{0, 1})) << "a folder that counts in another way";
}

// Of a drive with a limit and a whole one, only what both were judged on.
TEST(AgainstDrive, IsOfTheFramesOfAll) {
  const auto drive_of = [](uint32_t count, float error) {
    Drive drive{.name = "a", .route = {}, .recordings = {}, .models = {}};
    for (uint32_t id = 0; id < count; ++id) {
      drive::FrameResult& frame = drive.frames.emplace_back();
      frame.frame_id = id;
      frame.errors[0] = drive::PlanError{error + static_cast<float>(id), 0, 0};
      if (id != 1) frame.errors[1] = frame.errors[0];
    }
    return drive;
  };
  const Drive whole = drive_of(10, 1), some = drive_of(3, 2), none = drive_of(0, 0);
  const std::vector<const Drive*> drives{&whole, &none, &some};
  const std::vector<AgainstDrive> errors = against_drive(drives);
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_EQ(errors[0][0].count, 3);
  EXPECT_DOUBLE_EQ(*errors[0][0].distance_mean, 2);
  EXPECT_DOUBLE_EQ(*errors[2][0].distance_mean, 3);
  EXPECT_EQ(errors[0][1].count, 2);
  EXPECT_EQ(errors[1][0].count, 0);
  EXPECT_EQ(errors[2][2].count, 0);
  const std::vector<const Drive*> alone{&whole};
  EXPECT_EQ(against_drive(alone)[0][0].count, 10);
}

}  // namespace
}  // namespace sparkpilot::compare
