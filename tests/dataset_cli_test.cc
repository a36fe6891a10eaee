// dataset from outside: what it writes, says and refuses.
#include "base/folder_lock.h"
#include "drive_fixture.h"

#include "cli_fixture.h"

namespace sparkpilot {
namespace dataset_cli_test {

class DatasetCli : public Cli {
 protected:
  std::string synthetic(const std::string& more = "--synthetic 2") const {
    return "dataset build --seconds 0.5 --no-teacher --min-speed 0 --models " + in_quotes(models->path()) + " --out " +
           out() + " " + more;
  }
  std::string out() const { return in_quotes(folder / "data"); }
};

TEST_F(DatasetCli, BuildsDescribesAndChecks) {
  const json built = parsed(synthetic("--synthetic 2 --validation 0.5"));
  EXPECT_EQ(keys(built),
            (Keys{"folder", "id", "clips_made", "clips_kept", "clips_not_begun", "frames", "samples", "pictures",
                  "left_out", "bytes", "seconds", "frames_per_second", "cannot_drive", "routes", "stopped"}));
  EXPECT_EQ(built["clips_made"], 2);
  EXPECT_EQ(built["samples"], 6) << "frames 0, 4 and 8 of each";
  EXPECT_EQ(built["routes"][0]["split"], "train");
  EXPECT_EQ(built["routes"][1]["split"], "validation");

  const json info = parsed("dataset info " + out());
  EXPECT_EQ(keys(info), (Keys{"id", "fingerprint", "source", "teacher", "contract", "every", "options", "networks",
                              "samples", "fields", "clips"}));
  EXPECT_EQ(info["id"], built["id"]);
  EXPECT_EQ(info["samples"], 6);
  EXPECT_EQ(info["fields"][0], json({{"name", "img"}, {"dtype", "u8"}, {"shape", {12, 128, 256}}}));
  EXPECT_EQ(info["clips"].size(), 2u);
  const ProgramResult text = run_program("dataset info " + out());
  EXPECT_NE(text.out.find("3 samples to train, 3 to validate, 2 routes"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("labels.vision"), std::string::npos);
  EXPECT_EQ(parsed("dataset check " + out())["passed"], true);

  EXPECT_EQ(parsed(synthetic("--synthetic 3 --validation 0.5"))["clips_kept"], 2);
  const fs::path shard = folder / "data/synthetic-00000001--0.frames.safetensors";
  std::string bytes = read_text(shard);
  bytes[bytes.size() / 2] ^= 1;
  write_text(shard, bytes);
  expect_usage_error("dataset check --quiet " + out(), "its pictures are not those that were written");
}

TEST_F(DatasetCli, SaysWhatItWillTake) {
  const ProgramResult built = run_program(synthetic());
  EXPECT_EQ(built.code, 0);
  EXPECT_NE(built.err.find("of the disk are free"), std::string::npos) << built.err;
  EXPECT_NE(built.out.find("frames a second"), std::string::npos) << built.out;
}

TEST_F(DatasetCli, RefusesWhatHasNoEffect) {
  const std::string command = "dataset build --models x --out " + out() + " ";
  expect_usage_error(command, "expected either routes, or --synthetic N");
  expect_usage_error(command + "route --synthetic 3", "expected either routes, or --synthetic N");
  for (const char* flag : {"--no-teacher", "--road city", "--light day", "--after 0.2", "--wet", "--keep-left",
                           "--no-traffic", "--seed 3"})
    expect_usage_error(command + "route " + flag, "has no effect on recorded routes");
  for (const char* flag : {"--keep-overridden", "--limit 3", "--no-wide", "--focal-length 900"})
    expect_usage_error(command + "--synthetic 1 " + flag, "has no effect with --synthetic");
  expect_usage_error(synthetic("--synthetic 1 --road rural,sea"), "city or winding, got \"sea\"");
  expect_usage_error(synthetic("--synthetic 1 --road rural,any"), "any cannot be one of several");
  expect_usage_error(synthetic("--synthetic 1 --after 0.5"), "expected 0 or more, and less than these");
  expect_usage_error(synthetic("--synthetic 1 --light lamp"), "dusk or night, got \"lamp\"");
  expect_usage_error(synthetic("--synthetic 1 --max-bytes 3Q"), "--max-bytes");
  expect_usage_error(synthetic("--synthetic 1 --max-bytes 99999999999T"), "--max-bytes");
  expect_usage_error("dataset build --synthetic 1 --out " + out(), "expected one of --models DIR");
  expect_usage_error("dataset info " + in_quotes(folder / "nothing"), "holds no dataset.json");
}

// A limit below the smallest clip is refused with what the smallest takes at most, and leaves nothing.
TEST_F(DatasetCli, ALimitThatNoClipFitsIsRefused) {
  const std::string least = "the smallest is planned with ";
  const ProgramResult refused = run_program(synthetic("--quiet --synthetic 1 --max-bytes 1M"));
  EXPECT_EQ(refused.code, 2) << refused.out;
  const size_t at = refused.err.find(least);
  ASSERT_NE(at, std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(folder / "data"));
  const int64_t bytes = std::stoll(refused.err.substr(at + least.size()));
  expect_usage_error(synthetic("--quiet --synthetic 1 --max-bytes " + std::to_string(bytes - 1)), least);
  EXPECT_EQ(parsed(synthetic("--synthetic 1 --max-bytes " + std::to_string(bytes)))["clips_made"], 1);
  EXPECT_EQ(parsed(synthetic("--synthetic 2 --max-bytes " + std::to_string(bytes)))["clips_not_begun"], 1);
  // Clips count that are there and not named.
  EXPECT_EQ(parsed(synthetic("--synthetic 1 --seed 9 --max-bytes " + std::to_string(bytes)))["clips_not_begun"], 1);
}

TEST_F(DatasetCli, AFolderHasOneBuilder) {
  const FolderLock held(folder / "data");
  expect_usage_error(synthetic("--synthetic 1 --quiet"), "process " + std::to_string(getpid()) + " is writing");
}

// A full disk, and as well a limit on files' sizes: what was finished before stays.
TEST_F(DatasetCli, AFullDiskLeavesWhatWasFinished) {
  ASSERT_EQ(run_program(synthetic("--synthetic 1")).code, 0);
  const ProgramResult full = run_program(synthetic("--quiet --synthetic 2"), "ulimit -f 500;");
  EXPECT_EQ(full.code, 2);
  EXPECT_NE(full.err.find("cannot write"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("synthetic-00000002--0"), std::string::npos) << full.err;
  const json info = parsed("dataset info " + out());
  EXPECT_EQ(info["clips"].size(), 1u);
  for (const auto& entry : fs::directory_iterator(folder / "data"))
    EXPECT_EQ(entry.path().string().find("00000002"), std::string::npos) << entry.path();
  EXPECT_EQ(parsed(synthetic())["clips_made"], 1);
}

TEST_F(DatasetCli, CtrlCKeepsFinishedClips) {
  Background run({"dataset", "build", "--synthetic", "500", "--seconds", "1", "--no-teacher", "--models",
                  models->path().string(), "--out", folder.file("data")});
  ASSERT_TRUE(run.wait_for(folder / "data/synthetic-00000002--0.rows.safetensors"));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_EQ(parsed("dataset check " + out())["passed"], true);
  const json info = parsed("dataset info " + out());
  EXPECT_GE(info["clips"].size(), 2u);
  EXPECT_LT(info["clips"].size(), 500u);
}

TEST_F(DatasetCli, RoutesAreDrivenByATeacher) {
  ASSERT_EQ(
      run_program("route synth --quiet --device mici --seconds 0.6 --seed 5 --out " + in_quotes(folder / "route")).code,
      0);
  const std::string route = in_quotes(folder / "route");
  const json built =
      parsed("dataset build " + route + " --every 2 --models " + in_quotes(models->path()) + " --out " + out());
  // Frames before the log's first calibration are left out.
  int64_t left_out = 0;
  for (const auto& [why, count] : built["left_out"].items()) {
    EXPECT_EQ(why, "no calibration");
    left_out += count.get<int64_t>();
  }
  EXPECT_EQ(built["samples"].get<int64_t>() + left_out, 6) << "every second of 12 frames";
  EXPECT_GE(built["samples"], 5);
  EXPECT_EQ(built["frames"], 12);
  const json info = parsed("dataset info " + out());
  EXPECT_EQ(info["teacher"], true);
  EXPECT_EQ(info["source"], "routes");
  EXPECT_EQ(parsed("dataset check " + out())["samples"], built["samples"]);
  const std::string evaluate = "dataset evaluate --quiet " + out() + " --models " + in_quotes(models->path());
  expect_usage_error(evaluate + " --split all --against labels", "--against teacher");
  expect_usage_error(evaluate, "--split all");
  // With the teacher, unless it is asked for something else.
  const ProgramResult known = run_program(evaluate + " --split all");
  EXPECT_EQ(known.code, 0) << known.err;
  EXPECT_NE(known.out.find("metres from the teacher's path"), std::string::npos) << known.out;
  expect_usage_error(
      "dataset build " + route + " --every 3 --quiet --models " + in_quotes(models->path()) + " --out " + out(),
      "other options");
}

}  // namespace dataset_cli_test
}  // namespace sparkpilot
