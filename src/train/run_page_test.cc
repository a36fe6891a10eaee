// The page of a training run.
#include "train/run_page.h"

#include <gtest/gtest.h>

#include "base/test_error.h"
#include "base/test_files.h"

namespace sparkpilot::train {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The lines that a run of three updates and two evaluations writes; a head's loss was not finite once, and the last
// line is incomplete.
constexpr const char* kMetrics = R"({"update":1,"loss":9,"rate":0.1,"gradient_norm":2,)"
                                 R"("reports":{"loss.plan":5,"plan_error_4s":7},)"
                                 R"("time":{"seconds":1,"samples_per_second":10,"waited":0}}
{"update":2,"loss":6,"rate":0.2,"gradient_norm":2,"reports":{"loss.plan":null,"plan_error_4s":6.5}}
{"update":2,"evaluation_loss":6.25,"evaluation_reports":{"loss.plan":4,"plan_error_4s":8.5,"driven_error_4s":3}}
not a line
{"update":3,"loss":3,"rate":0.1,"reports":{"loss.plan":2,"plan_error_4s":6}}
{"update":3,"evaluation_loss":5.75,"evaluation_reports":{"loss.plan":3,"plan_error_4s":4.5,"driven_error_4s":2}}
{"update":4,"lo)";

TEST(RunPage, HasTheRunsCurvesAndItsValues) {
  const TempFolder folder;
  write_text(folder / "metrics.jsonl", kMetrics);
  RunPage run{.out = folder.path()};
  run.summary.progress = {.updates = 3, .best = 5.75, .best_updates = 3};
  run.notes = {"<script>alert(1)</script>"};
  run.facts = {{"data", "a & b"}};
  const std::string page = run_page(run);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("a &amp; b"), std::string::npos);
  for (const char* title : {"Loss", "Distance of the plan from the target&#39;s, evaluation", "Loss by head", "plan",
                            "Learning rate", "Samples a second"}) {
    EXPECT_NE(page.find(title), std::string::npos) << title;
  }
  // Loss, two kinds of errors, a head, rate, norm, samples a second, waiting.
  EXPECT_EQ(count_of(page, "<svg"), 8u);
  // The table: the first, the best and the last evaluation.
  EXPECT_NE(page.find("6.25"), std::string::npos);
  EXPECT_NE(page.find("5.75"), std::string::npos);
  EXPECT_NE(page.find("4.5 m"), std::string::npos);
  EXPECT_NE(page.find("first: 8.5 m, evaluation"), std::string::npos);
}

TEST(RunPage, OfARunWithoutEvaluations) {
  const TempFolder folder;
  write_text(folder / "metrics.jsonl", R"({"update":1,"loss":9,"rate":0.1,"gradient_norm":2})"
                                       "\n");
  RunPage run{.out = folder.path()};
  run.summary.ended = Ended::not_finite;
  run.summary.reason = "the loss of update 2 is not finite";
  const std::string page = run_page(run);
  EXPECT_NE(page.find("the loss of update 2 is not finite"), std::string::npos);
  EXPECT_EQ(count_of(page, "<svg"), 3u);
  EXPECT_EQ(page.find("Errors in metres"), std::string::npos);
  write_text(folder / "metrics.jsonl", "");
  EXPECT_EQ(count_of(run_page(run), "<svg"), 0u);
  run.out = folder / "nowhere";
  EXPECT_NE(error_of([&] { run_page(run); }).find("metrics.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::train
