#include "sim/results.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <fstream>

#include "base/test_error.h"
#include "base/test_files.h"
#include "sim/csv.h"

namespace sparkpilot::sim {
namespace {

RunInfo small_run() {
  RunInfo info;
  info.program = "0.1.0";
  info.algorithm = "my_control.so";
  info.algorithm_md5 = "0123";
  info.parameters = {{"ki", 0.15}, {"friction", 0.2546}};
  info.vehicle = "civic";
  info.plant = "bicycle";
  info.seed = 18446744073709551615u;
  info.scenarios = {"curve", "a,b"};
  info.variants = 2;
  info.instruction_set = "AVX2";
  info.metrics = {"tracking_rmse", "offset_max"};
  return info;
}

std::vector<ResultRow> small_rows() {
  return {{"curve", "curves", 0, 7, true, {}, "", {0.1, 1.0 / 3}},
          {"curve", "curves", 1, 8, false, 3.25, "diverged after \"3\" s, far off", {1e-30, std::nullopt}},
          {"a,b", "curves", 0, 18446744073709551615u, false, {}, "offset_max 2.1 above 1", {-0.0, 2.1}},
          {"a,b", "curves", 1, 3, true, {}, "", {0.5, 0.25}}};
}

// A finished folder of small_run().
void write_small(const TempFolder& folder) {
  ResultWriter writer(folder / "run", small_run(), false);
  writer.add(small_rows());
  RunInfo measured = small_run();
  measured.steps_per_second = 1e6;
  writer.finish(measured);
}

TEST(Results, AreReadAsWritten) {
  const TempFolder folder;
  write_small(folder);
  const Results read = read_results(folder / "run");
  EXPECT_EQ(read.rows, small_rows());
  EXPECT_TRUE(read.info.same_run(small_run()));
  EXPECT_EQ(read.info.steps_per_second, 1e6);
  EXPECT_FALSE(read.info.update_p50_us.has_value());
  RunInfo other = small_run();
  other.algorithm_md5 = "0124";
  EXPECT_FALSE(read.info.same_run(other));
}

TEST(Results, ContinueBehindTheLastWholeRow) {
  const TempFolder folder;
  const std::vector<ResultRow> rows = small_rows();
  ResultWriter(folder / "run", small_run(), false).add(std::span(rows).first(2));
  std::ofstream(folder / "run" / kUnfinishedFile, std::ios::app) << "a,b,cur";
  EXPECT_NE(error_of([&] { read_results(folder / "run"); }).find("not finished"), std::string::npos);
  EXPECT_EQ(read_results(folder / "run", true).rows.size(), 2u);
  {
    ResultWriter writer(folder / "run", small_run(), true);
    ASSERT_EQ(writer.rows(), 2);
    writer.add(std::span(rows).subspan(2));
    writer.finish(small_run());
  }
  EXPECT_EQ(read_results(folder / "run").rows, rows);
  EXPECT_TRUE(ResultWriter(folder / "run", small_run(), true).finished());
  const std::filesystem::path finished = folder / "run" / kRowsFile;
  std::filesystem::resize_file(finished, std::filesystem::file_size(finished) - 1);  // within the last row
  EXPECT_NE(error_of([&] { read_results(folder / "run"); }).find("the file was damaged"), std::string::npos);
  EXPECT_NE(error_of([&] { ResultWriter(folder / "run", small_run(), true); }).find("the file was damaged"),
            std::string::npos);
}

TEST(Results, ContinueWhatLostItsHeadings) {
  const std::vector<ResultRow> rows = small_rows();
  for (const std::string left : {"", "scenario,cate"}) {
    const TempFolder folder;
    ResultWriter(folder / "run", small_run(), false).add(rows);
    std::ofstream(folder / "run" / kUnfinishedFile) << left;
    {
      ResultWriter writer(folder / "run", small_run(), true);
      ASSERT_EQ(writer.rows(), 0);
      writer.add(rows);
      writer.finish(small_run());
    }
    EXPECT_EQ(read_results(folder / "run").rows, rows);
  }
}

TEST(Results, AnotherRunIsNotContinued) {
  const TempFolder folder;
  EXPECT_NE(error_of([&] { ResultWriter(folder / "run", small_run(), true); }).find("holds no run"), std::string::npos);
  write_small(folder);
  EXPECT_NE(error_of([&] { ResultWriter(folder / "run", small_run(), false); }).find("--resume"), std::string::npos);
  RunInfo other = small_run();
  other.parameters[0].value = 0.16;
  EXPECT_NE(error_of([&] { ResultWriter(folder / "run", other, true); }).find("says: ki 0.15, not ki 0.16"),
            std::string::npos);
  other = small_run();
  other.variants = 3;
  EXPECT_NE(error_of([&] { ResultWriter(folder / "run", other, true); }).find("says: variants 2, not 3"),
            std::string::npos);
}

// What was ended before its run.json was there, by a full disk or a signal, stands in nobody's way.
TEST(Results, ABeginningWithoutARunIsBegunAgain) {
  const TempFolder folder;
  const std::string headings = text_of_rows({}, small_run());
  for (const std::string& left : {std::string(), headings.substr(0, 10), headings}) {
    write_text(folder / "run" / kUnfinishedFile, left);
    ResultWriter(folder / "run", small_run(), false).add(small_rows());
    EXPECT_EQ(read_results(folder / "run", true).rows, small_rows());
    std::filesystem::remove_all(folder / "run");
  }
  write_text(folder / "run" / kUnfinishedFile, "mine");
  EXPECT_NE(error_of([&] { ResultWriter(folder / "run", small_run(), false); }).find("is there, without its run.json"),
            std::string::npos);
  // A file that cannot grow leaves nothing behind.
  const TempFolder full;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto as_before = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit none { 0, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const std::string said = error_of([&] { ResultWriter(full / "run", small_run(), false); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, as_before);
  EXPECT_NE(said.find("cannot be written: File too large"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(full / "run" / kUnfinishedFile));
}

TEST(Results, AFolderWithOtherFilesIsRefused) {
  const TempFolder folder;
  write_text(folder / "run/mine.txt", "mine");
  const std::string error = error_of([&] { ResultWriter(folder / "run", small_run(), false); });
  EXPECT_NE(error.find("run: holds mine.txt; name a folder that does not exist, or an empty one"), std::string::npos)
      << error;
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / kRunFile));
  std::filesystem::create_directory(folder / "empty");
  ResultWriter(folder / "empty", small_run(), false).finish(small_run());
}

TEST(Results, BadRowsAreNamed) {
  const std::string head = "scenario,category,variant,seed,passed,diverged_s,reason,tracking_rmse,offset_max\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "no line of headings"},
      {"scenario,category\n", "rows:1: expected the columns scenario,"},
      {head + "c,k,0,1,1,,,0.5,nan\n", "rows:2: column 9 (offset_max): expected a number, got \"nan\""},
      {head + "c,k,0,1,1,,,0.5,1\nc,k,-1,1,1,,,1,1\n", "rows:3: column 3 (variant)"},
      {head + "c,k,0,1,yes,,,1,1\n", "column 5 (passed): expected 0 or 1"},
      {head + "c,k,0,1,1,,,1\n", "8 columns, expected 9"},
      {head + "\"c,k,0,1,1,,,1,1\n", "a quote without its end"},
      {head + "\"c\"k,0,1,1,,,1,1\n", "text behind a quoted field"},
      {head + std::string(1000000, ',') + "\n", "rows:2: a line of 1000000 bytes"},
      {head + std::string(60000, ',') + "\n", "rows:2: more than 256 columns"}};
  for (const auto& [text, expected] : cases) {
    const std::string error = error_of([&, &rows = text] { parse_rows(rows, small_run(), "rows"); });
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  }
}

TEST(Results, BadRunsAreNamed) {
  const TempFolder folder;
  write_small(folder);
  const std::string good = read_text(folder / "run" / kRunFile);
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"\"format\": 1", "\"format\": 2", "format 2"},
      {"\"seed\": 1", "\"seed\": -1", "\"seed\": expected a whole number"},
      {"\"offset_max\"", "\"offset\"", "no metric \"offset\""},
      {"\"offset_max\"", "\"tracking_rmse\"", "\"tracking_rmse\" twice"},
      {"\"variants\": 2", "\"variants\": 1e300", "\"variants\": expected"},
      {"\"ki\": 0.15", "\"ki\": \"x\"", "\"parameters\": expected a number"},
      {"\"plant\"", "\"plants\"", "no \"plant\""},
      {"\"0123\"", "123", "\"algorithm_md5\": expected a text"},
      {"}", "", "not JSON"}};
  for (const auto& [from, to, expected] : cases) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const std::string error = error_of([&] { parse_run(text, "run.json"); });
    EXPECT_NE(error.find(expected), std::string::npos) << from << ": " << error;
  }
}

TEST(Csv, ReadsWhatItWrites) {
  const std::string text = "\xef\xbb\xbf" + csv_field("a,\"b\"\n") + ",,plain\r\n\n x ,+1.5";
  CsvReader csv(text, "t");
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.fields(), (std::vector<std::string>{"a,\"b\" ", "", "plain"}));
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.line(), 3);
  EXPECT_EQ(csv.number(1, "n"), 1.5);
  EXPECT_FALSE(csv.next());
}

}  // namespace
}  // namespace sparkpilot::sim
