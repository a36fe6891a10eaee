// `sparkpilot drive` from outside: its output and files, several processes, stopping and resuming.
#include <fmt/format.h>

#include <sstream>

#include "base/folder_lock.h"
#include "drive_fixture.h"
#include "route/video/reader.h"
#include "tensor/npy.h"

namespace sparkpilot {
namespace drive_cli_test {

TEST_F(DriveCli, SummaryAsJson) {
  const ProgramResult result = drive(route(), out(), "--json --realtime");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const json summary = json::parse(result.out);
  std::set<std::string> keys;
  for (const auto& [key, value] : summary.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"route",
                                         "out",
                                         "sparkpilot",
                                         "machine",
                                         "networks",
                                         "contract",
                                         "precision",
                                         "device",
                                         "processes",
                                         "threads",
                                         "complete",
                                         "frames",
                                         "frames_dropped",
                                         "frames_per_second",
                                         "realtime_factor",
                                         "seconds",
                                         "late_frames",
                                         "latency",
                                         "stages",
                                         "recorded_models",
                                         "recorded_drawn",
                                         "plan_error",
                                         "recorded_plan_error",
                                         "notes",
                                         "segments"}));
  EXPECT_EQ(summary["frames"], 2 * kSegmentFrames);
  EXPECT_EQ(summary["complete"], true);
  EXPECT_EQ(summary["networks"][1]["role"], "policy");
  EXPECT_EQ(summary["segments"][1]["name"], name(1));
  EXPECT_EQ(summary["segments"][1]["frames"], kSegmentFrames);
  EXPECT_EQ(json::parse(read_text((out() / "summary.json").string())), summary);
  // Each segment's first frame is available at once, the others every 50 ms.
  EXPECT_GE(summary["seconds"].get<double>(), 2 * 0.05 * (kSegmentFrames - 1));
  EXPECT_LT(summary["segments"][0]["seconds"].get<double>(), 0.05 * kSegmentFrames + 5);
  for (const int segment : {0, 1}) {
    const drive::VideoReader overlay(out() / name(segment) / "overlay.mp4");
    EXPECT_EQ(overlay.width(), 964);
    EXPECT_EQ(models_of(out() / name(segment)).size(), size_t{kSegmentFrames});
  }
}

constexpr const char* kThree =
    "OMPI_MCA_rmaps_base_oversubscribe=1 timeout 120 mpirun --allow-run-as-root --oversubscribe -np 3";

bool no_mpirun() { return std::system("mpirun --version >/dev/null 2>&1") != 0; }

// The differences of two drives are those of the messages that they wrote.
TEST_F(DriveCli, TwoDrivesAreComparedInDrivingTerms) {
  ASSERT_EQ(drive(route(), out("a")).code, 0);
  ASSERT_EQ(drive(route(), out("b"), "--no-overlay --no-wide").code, 0);
  const std::string both = "compare --quiet " + in_quotes(out("a")) + " " + in_quotes(out("b"));
  const ProgramResult result = run_program(both + " --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const json compared = json::parse(result.out)["drives"][1];
  std::vector<double> curvatures;
  int64_t flips = 0;
  for (const int segment : {0, 1}) {
    const std::vector<json> a = models_of(out("a") / name(segment)), b = models_of(out("b") / name(segment));
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const json &x = b[i]["modelV2"], &y = a[i]["modelV2"];
      curvatures.push_back(
          std::abs(x["action"]["desiredCurvature"].get<double>() - y["action"]["desiredCurvature"].get<double>()));
      flips += (x["meta"]["engagedProb"].get<double>() >= 0.5) != (y["meta"]["engagedProb"].get<double>() >= 0.5);
    }
  }
  EXPECT_EQ(compared["frames"], curvatures.size());
  const auto named = [](const json& rows, const std::string& wanted) {
    return *std::find_if(rows.begin(), rows.end(), [&](const json& row) { return row["name"] == wanted; });
  };
  const json curvature = named(compared["terms"], "curvature");
  EXPECT_EQ(curvature["frames"], curvatures.size());
  double sum = 0;
  for (const double c : curvatures) sum += c;
  EXPECT_GT(sum, 0);
  EXPECT_NEAR(curvature["mean"], sum / static_cast<double>(curvatures.size()), 1e-6);
  EXPECT_NEAR(curvature["max"], *std::max_element(curvatures.begin(), curvatures.end()), 1e-6);
  EXPECT_EQ(named(compared["decisions"], "engaged")["flips"], flips);
  EXPECT_GT(named(compared["terms"], "plan at 6 s")["max"], 0);

  const ProgramResult text = run_program(both);
  for (const char* word : {"plan at 6 s", "left lane line", "lead speed", "desire", "48 frames in both"})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.out;
  const ProgramResult beyond = run_program(both + " --max-plan-error 1e-9");
  EXPECT_EQ(beyond.code, 4);
  EXPECT_NE(beyond.err.find("plan at 1 s: 99th percentile "), std::string::npos) << beyond.err;
  EXPECT_EQ(run_program(both + " --max-plan-error 1e9").code, 0);
  const std::string itself = "compare " + in_quotes(out("a")) + " " + in_quotes(out("a"));
  EXPECT_EQ(run_program(itself + " --max-plan-error 1e-12").code, 0);
  expect_refused(run_program("compare " + in_quotes(out("a"))), "give a second drive");
  expect_refused(run_program(both + " --max-abs 1"), "--max-abs is for model files, these are drives");
  expect_refused(run_program("compare " + in_quotes(out("a")) + " " + in_quotes(models() / "tiny_driving_policy.onnx")),
                 "some of these are drives, others are models");
}

// The first Ctrl-C ends it, in the middle of its samples.
TEST_F(DriveCli, CtrlCEndsACalibrationOnSamples) {
  constexpr int64_t kSamples = 100'000;  // they take many seconds
  std::vector<std::string> words{"model", "calibrate", (models() / "tiny_driving_policy.onnx").string()};
  for (const auto& [input, shape] : std::vector<std::pair<std::string, Shape>>{
           {"features_buffer", {1, 25, 512}}, {"desire_pulse", {1, 25, 8}}, {"traffic_convention", {kSamples, 2}}}) {
    const std::string file = folder.file(input + ".npy");
    Tensor values = Tensor::zeros(DType::f32, shape);
    values.data<float>()[0] = 1;
    save_npy(file, values.view());
    words.insert(words.end(), {"--samples", input + "=" + file});
  }
  words.insert(words.end(), {"--out", out("calibration.json").string(), "--threads", "1", "--quiet"});
  Background run(words);
  const auto ticks = [&] {  // of processor time, 100 a second
    std::istringstream fields(read_text(fmt::format("/proc/{}/stat", run.pid())));
    std::string field;
    int64_t sum = 0;
    for (int i = 1; i <= 15 && fields >> field; ++i) sum += i >= 14 ? std::stoll(field) : 0;
    return sum;
  };
  while (!run.ended() && ticks() < 50) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_FALSE(run.ended());
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_FALSE(fs::exists(out("calibration.json")));
}

// Made on frames of a route, each for one network, which it finds by the model's hash.
TEST_F(DriveCli, CalibrationsOfNetworksRoundWhatTheirProductsRead) {
  const fs::path policy = models() / "tiny_driving_policy.onnx", made = folder.path() / "policy.json";
  const std::string calibrate = "model calibrate --quiet --json --route " + in_quotes(route()) + " --frames 4 --out ";
  const ProgramResult result = run_program(calibrate + in_quotes(made) + " " + in_quotes(policy));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["samples"], 4);
  const fs::path alone = folder.path() / "alone.onnx";
  fs::copy(policy, alone);
  expect_refused(run_program(calibrate + in_quotes(made) + " " + in_quotes(alone)),
                 "holds neither driving_vision.onnx");
  expect_refused(run_program(calibrate + in_quotes(made) + " " + in_quotes(models() / "tiny_dmonitoring_model.onnx")),
                 "is not a network of the driving model in its folder");
  expect_refused(run_program("model calibrate --frames 4 --out " + in_quotes(made) + " " + in_quotes(policy)),
                 "--route");

  const std::string fp8 = "--no-overlay --limit 6 --precision fp8";
  ASSERT_EQ(drive(route() / name(0), out("plain"), fp8).code, 0);
  const ProgramResult calibrated =
      drive(route() / name(0), out("calibrated"), fp8 + " --calibration " + in_quotes(made));
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  EXPECT_NE(models_of(out("plain") / name(0)), models_of(out("calibrated") / name(0)));
  expect_refused(drive(route(), out(), "--no-overlay --calibration " + in_quotes(made)), "without --precision fp8");
  expect_refused(drive(route(), out(), fp8 + " --calibration " + in_quotes(made) + " --calibration " + in_quotes(made)),
                 "a second calibration of ");
  json other = json::parse(read_text(made.string()));
  other["model_fnv1a_64"] = "0123456789abcdef";
  write_text(made.string(), other.dump());
  expect_refused(drive(route(), out(), fp8 + " --calibration " + in_quotes(made)), "0123456789abcdef; ");
}

TEST_F(DriveCli, SeveralProcessesGiveTheSame) {
  if (no_mpirun()) GTEST_SKIP() << "there is no mpirun";
  ASSERT_EQ(drive(route(), out("one")).code, 0);
  // Three processes for two segments: one has nothing to do.
  const ProgramResult several = run_program(words(route(), out("several")) + "--no-overlay --json", kThree);
  ASSERT_EQ(several.code, 0) << several.err;
  const json summary = json::parse(several.out);
  EXPECT_EQ(summary["processes"], 3);
  EXPECT_EQ(summary["frames"], 2 * kSegmentFrames);
  for (const int segment : {0, 1})
    EXPECT_EQ(models_of(out("several") / name(segment)), models_of(out("one") / name(segment)));
}

// The first of several processes times each network's kernels; the others use its choices.
TEST_F(DriveCli, OneOfSeveralProcessesTimesKernels) {
  if (no_mpirun()) GTEST_SKIP() << "there is no mpirun";
  const auto timings = [&](const std::string& folder, const std::string& before) {
    std::string arguments = words(route(), out(folder)) + "--no-overlay --threads 3 --limit 3 --tune full";
    arguments.erase(arguments.find(" --quiet"), 8);
    const ProgramResult result = run_program(arguments, before);
    EXPECT_EQ(result.code, 0) << result.err;
    int lines = 0;
    const std::string line = "timing the kernels of ";
    for (size_t at = result.err.find(line); at != std::string::npos; at = result.err.find(line, at + 1)) ++lines;
    return lines;
  };
  const int alone = timings("timed_alone", "");
  EXPECT_GT(alone, 0);
  EXPECT_EQ(timings("timed_together", kThree), alone);
}

// One process reports the error, whether all or only one had it, and none waits for another.
TEST_F(DriveCli, SeveralProcessesFailWithOneLine) {
  if (no_mpirun()) GTEST_SKIP() << "there is no mpirun";
  fs::create_directories(out("recorded") / name(1));
  write_text(out("recorded") / name(1) / "fcamera.hevc", "a recording of the segment that the second process drives");
  fs::create_directories(out("blocked") / "summary.html" / "in the way");
  const FolderLock held(out("held"));
  const std::pair<std::string, std::string> cases[] = {
      {words(route(), out()) + "--limit few", "--limit: expected a whole number"},
      {words(route(), out()) + "--limit -1", "--limit: expected at least 0"},
      {words("/nowhere", out()), "/nowhere"},
      {words(route(), out("recorded")) + "--no-overlay", "holds a recording"},
      {words(route(), out("held")) + "--no-overlay", fmt::format("process {} is writing", getpid())},
      {words(route(), out("blocked")) + "--no-overlay", "summary.html"}};
  for (const auto& [arguments, word] : cases) {
    const ProgramResult result = run_program(arguments, kThree);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
    const std::string mine = "sparkpilot drive: ";
    const size_t first = result.err.find(mine);
    ASSERT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(mine, first + 1), std::string::npos) << result.err;
  }
}

// The launcher ends all processes as soon as one has failed, possibly before the one that reports the reason.
TEST_F(DriveCli, TheFirstOfSeveralProcessesTellsWhyHoweverLate) {
  if (no_mpirun()) GTEST_SKIP() << "there is no mpirun";
  const std::string late =
      std::string(kThree) + R"( sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then sleep 0.5; fi; exec "$@"' sh)";
  for (const char* wrong : {"--limit few", "--precision fp31"}) {
    const ProgramResult result = run_program(words(route(), out()) + wrong, late);
    EXPECT_EQ(result.code, 2) << wrong;
    EXPECT_NE(result.err.find("sparkpilot drive: "), std::string::npos) << result.err;
  }
}

// A configuration file of one machine, say, must not leave its segments out without a word.
TEST_F(DriveCli, SeveralProcessesMakeOneRun) {
  if (no_mpirun()) GTEST_SKIP() << "there is no mpirun";
  const std::string differ =
      std::string(kThree) +
      R"( sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && export SPARKPILOT_PRECISION=bf16; exec "$@"' sh)";
  const ProgramResult other = run_program(words(route(), out()) + "--no-overlay --limit 3", differ);
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_NE(other.err.find("process 1 has another model, route or setting than process 0"), std::string::npos);
  // One that writes elsewhere is told of.
  const std::string at_home =
      "drive " + in_quotes(route()) + " --models " + in_quotes(models()) + " --no-overlay --limit 3 --threads 1 --json";
  const ProgramResult missing = run_program(at_home, std::string(kThree) + R"( sh -c 'd=)" + out("home").string() +
                                                         R"(; [ "$OMPI_COMM_WORLD_RANK" = 1 ] && d=)" +
                                                         out("apart").string() + R"(; exec "$@" --out $d' sh)");
  ASSERT_EQ(missing.code, 4) << missing.err;
  const auto summary = nlohmann::json::parse(missing.out);
  EXPECT_EQ(summary["complete"], false);
  ASSERT_EQ(summary["segments"].size(), 2u);
  EXPECT_NE(summary["segments"][1]["notes"][0].get<std::string>().find("its process left no result in"),
            std::string::npos);
}

TEST_F(DriveCli, OneRunAtATimeWritesIntoAFolder) {
  {
    const FolderLock held(out());
    const ProgramResult refused = drive(route(), out());
    expect_refused(refused, fmt::format("{}: process {} is writing", out().string(), getpid()));
    expect_refused(run_program("drive " + in_quotes(route()) + " --quiet --from-log --out " + in_quotes(out())),
                   "is writing into this folder");
    EXPECT_EQ(drive(route(), out("other")).code, 0);
  }
  EXPECT_FALSE(fs::exists(out())) << "nothing of what was refused";
  EXPECT_EQ(left_over(out("other")), "");
  EXPECT_FALSE(fs::exists(out("other") / ".sparkpilot.lock"));
}

TEST_F(DriveCli, ARunThatWasKilledHoldsNoFolder) {
  Background first({"drive", route().string(), "--models", models().string(), "--out", out().string(), "--realtime"});
  ASSERT_TRUE(first.wait_for(out() / name(0) / "segment.json"));
  first.signal(SIGSTOP);  // paused in the middle, however long the second run takes
  const auto left = fs::file_size(out() / name(0) / "segment.json");
  expect_refused(drive(route(), out()), fmt::format("process {} is writing", first.pid()));
  EXPECT_EQ(fs::file_size(out() / name(0) / "segment.json"), left);
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait(), 128 + SIGKILL);
  EXPECT_TRUE(fs::exists(out() / ".sparkpilot.lock"));
  EXPECT_EQ(drive(route(), out()).code, 0);
  EXPECT_FALSE(fs::exists(out() / ".sparkpilot.lock"));
  for (const int segment : {0, 1}) EXPECT_EQ(models_of(out() / name(segment)).size(), size_t{kSegmentFrames});
}

// A line wider than the terminal would be left behind at each redraw.
TEST_F(DriveCli, ProgressFitsTheTerminal) {
  if (std::system("script --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no script to make a terminal";
  for (const int columns : {100, 60, 20, 5}) {
    const std::string command =
        fmt::format("stty cols {}; {} drive {} --from-log --out {} --realtime --limit 8 >/dev/null", columns,
                    in_quotes(SPARKPILOT_PROGRAM), in_quotes(route()), in_quotes(out(std::to_string(columns))));
    write_text(folder / "run.sh", command);
    ASSERT_EQ(std::system(("TERM=xterm script -qec 'sh " + folder.file("run.sh") + "' /dev/null >" +
                           folder.file("seen") + " </dev/null")
                              .c_str()),
              0);
    std::istringstream seen(read_text(folder / "seen"));
    size_t widest = 0;
    for (std::string line; std::getline(seen, line, '\r');) {
      const std::string clear = "\x1b[K";
      if (line.starts_with(clear)) widest = std::max(widest, line.size() - clear.size());
    }
    EXPECT_GT(widest, 5U);
    EXPECT_LE(widest, static_cast<size_t>(std::max(columns - 1, 6))) << read_text(folder / "seen");
  }
}

// The number of frames of an overlay that can be decoded.
int64_t decoded(const fs::path& video) {
  drive::VideoReader reader(video);
  int64_t frames = 0;
  while (reader.next()) ++frames;
  EXPECT_EQ(reader.undecodable(), 0);
  EXPECT_EQ(reader.damage(), "");
  return frames;
}

TEST_F(DriveCli, WithoutAModelThereIsNoPrecisionAndNoTimeOfNetworks) {
  const ProgramResult result =
      run_program("drive " + in_quotes(route()) + " --quiet --from-log --json --out " + in_quotes(out()));
  ASSERT_EQ(result.code, 0) << result.err;
  const json summary = json::parse(result.out);
  EXPECT_TRUE(summary["precision"].is_null());
  EXPECT_TRUE(summary["latency"]["p50_ms"].is_null());
  EXPECT_TRUE(summary["stages"]["infer_ms"].is_null());
  EXPECT_GT(summary["stages"]["decode_road_ms"], 0);
  EXPECT_EQ(read_text(out() / "summary.html").find("precision"), std::string::npos);
}

TEST_F(DriveCli, GoesOnWhereItWasStopped) {
  // The time of the second segment's first frame is unknown, so the run is stopped later and later until there is one,
  // and earlier where it was at its end.
  size_t frames = 0;
  for (int wait_ms = 400, tries = 0; frames == 0; ++tries) {
    ASSERT_LT(tries, 15);
    fs::remove_all(out());
    Background run({"drive", route().string(), "--models", models().string(), "--out", out().string(), "--realtime"});
    ASSERT_TRUE(run.wait_for(out() / name(0) / "overlay.mp4"));
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    run.signal(SIGINT);
    const int code = run.wait();
    wait_ms = code == 0 ? wait_ms * 2 / 3 : wait_ms * 3 / 2;
    if (code == 0) continue;
    ASSERT_EQ(code, 130);
    EXPECT_EQ(left_over(out()), "");
    frames = fs::exists(out() / name(1) / "rlog.zst") ? models_of(out() / name(1)).size() : 0;
  }
  const json stopped = result_of(out() / name(1));
  EXPECT_EQ(stopped["complete"], false);
  EXPECT_LT(frames, size_t{kSegmentFrames});
  EXPECT_EQ(decoded(out() / name(1) / "overlay.mp4"), static_cast<int64_t>(frames));
  EXPECT_EQ(json::parse(read_text((out() / "summary.json").string()))["complete"], false);

  const std::string other = "--supercombo " + in_quotes(out("other") / "tiny_driving_supercombo.onnx");
  ASSERT_EQ(run_program("zoo build --quiet tiny_driving_supercombo --out " + in_quotes(out("other"))).code, 0);
  const std::string resume = "drive " + in_quotes(route()) + " --quiet --out " + in_quotes(out()) + " --resume ";
  expect_refused(run_program(resume + other), (out() / name(0) / "segment.json").string());

  const auto before = fs::last_write_time(out() / name(0) / "rlog.zst");
  const ProgramResult finished = run_program(resume + "--json --models " + in_quotes(models()));
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(json::parse(finished.out)["complete"], true);
  EXPECT_EQ(fs::last_write_time(out() / name(0) / "rlog.zst"), before) << "a segment that was whole is kept";
  EXPECT_EQ(decoded(out() / name(1) / "overlay.mp4"), kSegmentFrames);
  ASSERT_EQ(drive(route(), out("whole")).code, 0);
  // What was removed or cut since is made again.
  for (const char* damaged : {"rlog.zst", "overlay.mp4"}) {
    const fs::path file = out() / name(0) / damaged;
    for (const bool removed : {true, false}) {
      if (removed) fs::remove(file);
      else fs::resize_file(file, 1000);
      const ProgramResult again = run_program("drive " + in_quotes(route()) + " --out " + in_quotes(out()) +
                                              " --resume --models " + in_quotes(models()));
      ASSERT_EQ(again.code, 0) << again.err;
      EXPECT_NE(again.err.find(std::string(damaged) + (removed ? " is not there" : " has 1000 bytes")),
                std::string::npos)
          << again.err;
      EXPECT_GT(fs::file_size(file), 1000U);
    }
  }
  // Earlier versions did not write which files there are.
  json older = result_of(out() / name(0));
  older.erase("files");
  write_text((out() / name(0) / "segment.json").string(), older.dump());
  fs::remove(out() / name(0) / "rlog.zst");
  ASSERT_EQ(drive(route(), out(), "--resume").code, 0);
  for (const int segment : {0, 1}) EXPECT_EQ(models_of(out() / name(segment)), models_of(out("whole") / name(segment)));
}

TEST_F(DriveCli, TheSecondCtrlCEndsAtOnceAndLeavesNothingHalfWritten) {
  Background run({"drive", route().string(), "--models", models().string(), "--out", out().string(), "--realtime"});
  ASSERT_TRUE(run.wait_for(out() / name(0) / "overlay.mp4"));
  while (!run.ended()) {
    run.signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(run.wait(), 130);
  EXPECT_EQ(left_over(out()), "");
  // A file finished between the first and the second signal is complete.
  const fs::path log = out() / name(1) / "rlog.zst", video = out() / name(1) / "overlay.mp4";
  if (fs::exists(log)) models_of(out() / name(1));
  if (fs::exists(video)) decoded(video);
  const bool begun = fs::exists(out() / name(1) / "segment.json");
  EXPECT_FALSE(begun && result_of(out() / name(1))["complete"] == true && !fs::exists(log));
}

// Open MPI passes Ctrl-C on as SIGTERM after a second and kills after another, so files may be missing, but none is
// incomplete.
TEST_F(DriveCli, CtrlCUnderALauncherLeavesNothingHalfWritten) {
  if (no_mpirun()) GTEST_SKIP() << "there is no mpirun";
  constexpr int kFrames = 60;
  for (const int number : {0, 1, 2}) make_segment(folder.path() / "long", kFrames, number);
  const fs::path from = folder.path() / "long";
  {
    Background run({"drive", from.string(), "--models", models().string(), "--out", out().string(), "--realtime"},
                   {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3"});
    ASSERT_TRUE(run.wait_for(out() / name(0) / "segment.json"));
    run.signal(SIGINT);
    EXPECT_NE(run.wait(), 0);
  }
  EXPECT_EQ(left_over(out()), "");
  for (const auto& segment : fs::directory_iterator(out())) {
    if (!segment.is_directory()) continue;
    const fs::path log = segment.path() / "rlog.zst", video = segment.path() / "overlay.mp4";
    const json result = result_of(segment.path());
    EXPECT_EQ(result["complete"], false);
    const auto frames = static_cast<int64_t>(fs::exists(log) ? models_of(segment.path()).size() : 0);
    EXPECT_LT(frames, kFrames);
    if (fs::exists(video)) {
      EXPECT_EQ(decoded(video), frames);
    }
  }
  ASSERT_EQ(drive(from, out(), "--resume").code, 0);
  EXPECT_EQ(json::parse(read_text((out() / "summary.json").string()))["complete"], true);
}

// As a user's first command: nothing is given.
TEST(DriveDemo, DrivesARoadOfItsOwn) {
  const TempFolder folder;
  const std::string there = "cd " + in_quotes(folder.path()) + " &&";
  const ProgramResult result = run_program("drive --demo", there);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("summary: sparkpilot-demo/summary.html\n"), std::string::npos) << result.out;
  const fs::path out = folder / "sparkpilot-demo";
  const json summary = json::parse(read_text(out / "summary.json"));
  EXPECT_EQ(summary["frames"], 160);
  EXPECT_EQ(summary["frames_dropped"], 0);
  ASSERT_EQ(summary["networks"].size(), 1U);
  EXPECT_NE(summary["networks"][0]["file"].get<std::string>().find("demo_supercombo.onnx"), std::string::npos);
  // A model that sees nothing is wrong by more than 6 m (models/demo_supercombo.md).
  const json& error = summary["plan_error"][1];
  EXPECT_EQ(error["horizon_s"], 2);
  EXPECT_LT(error["mean_m"].get<double>(), 2) << error;
  // Of the first four frames, which have no earlier picture, the log knows where the car went for two.
  EXPECT_EQ(error["count"].get<int>(), summary["recorded_plan_error"][1]["count"].get<int>() - 2);
  EXPECT_TRUE(fs::exists(out / summary["segments"][0]["name"].get<std::string>() / "overlay.mp4"));
  // The road is made once.
  const auto road = out / "route" / summary["segments"][0]["name"].get<std::string>() / "fcamera.hevc";
  const auto made = fs::last_write_time(road);
  EXPECT_EQ(run_program("drive --demo --limit 5 --no-overlay", there).code, 0);
  EXPECT_EQ(fs::last_write_time(road), made);
}

TEST(DriveDemo, ReplacesNothingOfItsUsers) {
  const TempFolder folder;
  for (const char* name : {"notes.txt", "summary.html"}) {
    const fs::path out = folder / (std::string("of_") + name);
    write_text(out / name, "mine");
    const ProgramResult result = run_program("drive --demo --out " + in_quotes(out));
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.err, "sparkpilot drive: " + out.string() + ": holds " + name +
                              ", which is not a demo's: choose another folder with --out\n");
    EXPECT_EQ(read_text(out / name), "mine");
  }
}

TEST(DriveDemo, SaysWhatHasNoEffectAndWhatIsMissing) {
  const TempFolder folder;
  for (const auto& [given, name] : {std::pair("a_route", "ROUTE"),
                                    {"--models x", "--models"},
                                    {"--supercombo x", "--supercombo"},
                                    {"--data x", "--data"},
                                    {"--from-log", "--from-log"},
                                    {"--qcamera", "--qcamera"}}) {
    const ProgramResult result =
        run_program(std::string("drive --demo ") + given + " --out " + in_quotes(folder / "out"));
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.err, std::string("sparkpilot drive: --demo drives its own route with its own model: ") + name +
                              " has no effect with it\n");
  }
  fs::create_directories(folder / "bin");
  fs::copy_file(SPARKPILOT_PROGRAM, folder / "bin/sparkpilot");
  const std::string program = in_quotes(folder / "bin/sparkpilot");
  const std::string words = program + " drive --demo --out " + in_quotes(folder / "out") + " 2>" +
                            in_quotes(folder / "err") + " || echo $? >" + in_quotes(folder / "code");
  ASSERT_EQ(std::system(words.c_str()), 0);
  EXPECT_EQ(read_text(folder / "code"), "2\n");
  EXPECT_NE(read_text(folder / "err").find("share/sparkpilot/models/demo_supercombo.onnx"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

}  // namespace drive_cli_test
}  // namespace sparkpilot
