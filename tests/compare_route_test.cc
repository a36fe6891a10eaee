// `sparkpilot compare --route` from outside: one drive of the frames for all models, the same results as many drives.
#include "drive_fixture.h"
#include "route/video/reader.h"

namespace sparkpilot {
namespace compare_route_test {

class CompareRoute : public DriveCli {
 protected:
  std::string compare(const std::string& flags) const {
    return "compare --route " + in_quotes(route()) + " --threads 1 " + flags;
  }
  std::string of_models(const std::string& flags) const {
    return compare("--models " + in_quotes(models()) + " " + flags);
  }
  static json run(const std::string& words) {
    const ProgramResult result = run_program(words + " --json --quiet");
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
  static json without_names(json drive) {
    drive.erase("name");
    return drive;
  }
};

TEST_F(CompareRoute, GivesWhatSeparateDrivesGive) {
  const json together = run(of_models("--precision fp32,fp16 --out " + in_quotes(out("together"))));
  EXPECT_EQ(together["variants"].size(), 2u);
  for (const json& variant : together["variants"]) {
    EXPECT_EQ(variant["frames"], 2 * kSegmentFrames);
    EXPECT_GT(variant["p50_ms"], 0);
    EXPECT_EQ(variant["time_ratio"]["rounds"], 2 * kSegmentFrames / 20);
  }
  EXPECT_EQ(together["variants"][1]["name"], "fp16");
  const std::string flags = "--no-overlay --threads 1 --precision ";
  ASSERT_EQ(drive(route(), out("a"), flags + "fp32").code, 0);
  ASSERT_EQ(drive(route(), out("b"), flags + "fp16").code, 0);
  const json apart = run("compare " + in_quotes(out("a")) + " " + in_quotes(out("b")));
  EXPECT_EQ(without_names(together["drives"][1]), without_names(apart["drives"][1]));
  EXPECT_GT(apart["drives"][1]["terms"][0]["max"], 0) << "the two precisions differ";
  // What --out keeps are drives.
  const json kept = run("compare " + in_quotes(out("together") / "fp32") + " " + in_quotes(out("together") / "fp16"));
  EXPECT_EQ(without_names(kept["drives"][1]), without_names(apart["drives"][1]));
  EXPECT_EQ(left_over(out("together")), "");
}

// As for model files: every precision with every number of threads, which are the networks'.
TEST_F(CompareRoute, SeveralNumbersOfThreads) {
  const std::string base = "compare --route " + in_quotes(route()) + " --models " + in_quotes(models());
  const json both = run(base + " --threads 1,2 --precision fp32,fp16 --limit 21 --out " + in_quotes(out("kept")));
  ASSERT_EQ(both["variants"].size(), 4u);
  const char* names[] = {"fp32 1 thread", "fp32 2 threads", "fp16 1 thread", "fp16 2 threads"};
  const char* folders[] = {"fp32_1_thread", "fp32_2_threads", "fp16_1_thread", "fp16_2_threads"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(both["variants"][i]["name"], names[i]);
    EXPECT_EQ(both["drives"][i]["name"], names[i]);
    EXPECT_EQ(both["variants"][i]["threads"], i % 2 + 1);
    EXPECT_EQ(both["variants"][i]["time_ratio"]["rounds"], 2);
    EXPECT_TRUE(fs::exists(out("kept") / folders[i] / name(0) / "rlog.zst")) << folders[i];
  }
  EXPECT_EQ(both["drives"][1]["terms"][0]["max"], 0) << "results do not depend on the number";
  EXPECT_GT(both["drives"][2]["terms"][0]["max"], 0);
  EXPECT_EQ(both["drives"][2]["terms"], both["drives"][3]["terms"]);

  // One number is the same for all and in no name; without the flag the setting has it.
  for (const bool flag : {true, false}) {
    const ProgramResult result =
        run_program(base + (flag ? " --threads 2" : "") + " --precision fp32,int8 --limit 2 --json --quiet",
                    flag ? "" : "SPARKPILOT_THREADS=2");
    ASSERT_EQ(result.code, 0) << result.err;
    const json one = json::parse(result.out);
    EXPECT_EQ(one["variants"][0]["name"], "fp32");
    for (const json& variant : one["variants"]) EXPECT_EQ(variant["threads"], 2);
  }
  const json quantized = run(base + " --threads 1,2 --precision int8 --limit 2");
  ASSERT_EQ(quantized["notes"].size(), 1u) << "calibrated once";
  EXPECT_EQ(quantized["notes"][0], "1 thread, 2 threads: calibrated on 2 frames of the first segment");
}

TEST_F(CompareRoute, APageWithPicturesAndAFilm) {
  const fs::path recorded = out("recorded");  // which goes away
  fs::copy(route(), recorded, fs::copy_options::recursive);
  const ProgramResult made =
      run_program("compare --route " + in_quotes(recorded) + " --threads 1 --models " + in_quotes(models()) +
                  " --precision fp32,fp16 --quiet --video --out " + in_quotes(out("compared")));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("page: " + (out("compared") / "compare.html").string()), std::string::npos) << made.out;
  const auto page_of = [](const fs::path& folder) { return read_text((folder / "compare.html").string()); };
  const auto count = [](const std::string& text, const std::string& word) {
    int found = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  const std::string page = page_of(out("compared"));
  for (const char* word : {"fp16 against fp32", "plan at 6 s", "worst moments", "frames/s", "Desired curvature"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
  // 48 frames are 2.4 s: at most three moments of different seconds, each with a link into the film.
  const int pictures = count(page, "data:image/jpeg");
  EXPECT_GE(pictures, 2);
  EXPECT_LE(pictures, 3);
  EXPECT_EQ(count(page, "<a href=\"./compare.mp4#t="), pictures);
  drive::VideoReader film(out("compared") / "compare.mp4");
  int frames = 0;
  while (film.next()) ++frames;
  EXPECT_EQ(frames, 2 * kSegmentFrames);

  const std::string both =
      "compare " + in_quotes(out("compared") / "fp32") + " " + in_quotes(out("compared") / "fp16") + " --quiet --out ";
  ASSERT_EQ(run_program(both + in_quotes(out("again"))).code, 0);
  EXPECT_EQ(count(page_of(out("again")), "data:image/jpeg"), pictures);
  EXPECT_EQ(count(page_of(out("again")), "compare.mp4"), 0) << "without --video";
  EXPECT_FALSE(fs::exists(out("again") / "compare.mp4"));
  // The recording is gone: all but the pictures is there.
  fs::remove_all(recorded);
  const ProgramResult without = run_program(both + in_quotes(out("without")) + " --video");
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_EQ(count(page_of(out("without")), "data:image/jpeg"), 0);
  EXPECT_NE(page_of(out("without")).find("no such"), std::string::npos);
  EXPECT_FALSE(fs::exists(out("without") / "compare.mp4"));
}

TEST_F(CompareRoute, QuantizesOnFramesOfTheRoute) {
  const json document = run(of_models("--precision fp32,int8 --limit 2"));
  ASSERT_EQ(document["notes"].size(), 1u);
  EXPECT_NE(document["notes"][0].get<std::string>().find("int8: calibrated on 2 frames"), std::string::npos);
  const json& plan = document["drives"][1]["terms"][0];
  EXPECT_EQ(plan["frames"], 4);
  EXPECT_GT(plan["max"], 0);
  EXPECT_LT(plan["max"], 10) << "int8 is still about the same plan";
  const ProgramResult text = run_program(of_models("--precision fp32,fp16 --limit 2"));
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word : {"fp16 against fp32", "frames/s", "plan at 6 s", "90 %"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
}

TEST_F(CompareRoute, ModelsOfOtherErasAreDrivenAfterOneAnother) {
  const std::string late = in_quotes(out("late"));
  ASSERT_EQ(run_program("zoo build --quiet tiny_driving_supercombo --out " + late).code, 0);
  const json document =
      run(compare("--models " + in_quotes(models()) + " --models " + late + " --precision fp32,fp16 --limit 21"));
  ASSERT_EQ(document["variants"].size(), 4u);
  EXPECT_EQ(document["variants"][2]["name"], "late fp32");
  EXPECT_EQ(document["variants"][0]["contract"].get<std::string>().substr(0, 5), "era C");
  EXPECT_EQ(document["variants"][2]["contract"].get<std::string>().substr(0, 5), "era D");
  EXPECT_EQ(document["variants"][1]["time_ratio"]["rounds"], 2);
  EXPECT_TRUE(document["variants"][2]["time_ratio"].is_null()) << "not in turns with the first";
  ASSERT_EQ(document["notes"].size(), 1u);
  EXPECT_NE(document["notes"][0].get<std::string>().find("samples its pictures in another way"), std::string::npos);
  EXPECT_EQ(document["drives"][3]["frames"], 42);
}

// `drive --reference` is `drive`, then `compare REFERENCE OUT --fields`.
TEST_F(CompareRoute, AReferenceIsTheShortForm) {
  const std::string flags = "--no-overlay --threads 1 --precision ";
  ASSERT_EQ(drive(route(), out("a"), flags + "fp32").code, 0);
  const ProgramResult same = drive(route(), out("b"), flags + "fp16 --json --reference " + in_quotes(out("a")));
  EXPECT_EQ(same.code, 0) << same.err;
  const json summary = json::parse(same.out);
  EXPECT_EQ(summary["reference"], out("a").string());
  const json compared = run("compare " + in_quotes(out("a")) + " " + in_quotes(out("b")) + " --fields");
  EXPECT_EQ(summary["comparison"], compared);
  EXPECT_EQ(compared["drives"][1]["fields"]["frames"], 2 * kSegmentFrames);
  EXPECT_NE(read_text((out("b") / "compare.html").string()).find("every field"), std::string::npos);
  EXPECT_NE(read_text((out("b") / "summary.html").string()).find("./compare.html"), std::string::npos);

  const std::string strict = " --tolerance-scale 0 --reference " + in_quotes(out("a"));
  const ProgramResult beyond = drive(route(), out("b"), flags + "fp16" + strict);
  EXPECT_EQ(beyond.code, 4);
  EXPECT_NE(beyond.out.find("beyond"), std::string::npos) << beyond.out;
  EXPECT_NE(beyond.out.find("plan at 6 s"), std::string::npos) << "also in driving terms";
  // The reference is read before the run writes into its folder.
  EXPECT_EQ(drive(route(), out("a"), flags + "fp32 --tolerance-scale 0 --reference " + in_quotes(out("a"))).code, 0);
  EXPECT_EQ(
      run_program("compare " + in_quotes(out("a")) + " " + in_quotes(out("b")) + " --fields --tolerance-scale 0").code,
      4);
  expect_refused(run_program("compare " + in_quotes(out("a")) + " " + in_quotes(out("b")) + " --tolerance-scale 2"),
                 "--tolerance-scale is for --fields");
  expect_refused(drive(route(), out("c"), "--reference /nowhere"), "--reference /nowhere");
  // Where the made-up plan does not reach, its lane lines have no times: NaN is beyond any tolerance.
  const ProgramResult recorded = drive(route(), out("c"), flags + "fp32 --tolerance-scale 1e9 --reference recorded");
  EXPECT_EQ(recorded.code, 4) << recorded.err;
  EXPECT_NE(recorded.out.find("against recorded"), std::string::npos) << recorded.out;
  EXPECT_EQ(recorded.out.find(" 0 s"), std::string::npos) << "the horizons have their times\n" << recorded.out;
  EXPECT_EQ(left_over(out("c")), "");
}

// Frames that the run is not asked for do not count, the reference's or an earlier run's; those that it lacks do.
TEST_F(CompareRoute, AReferenceIsHeldToTheFramesOfTheRun) {
  const std::string flags = "--no-overlay --threads 1 --precision ";
  ASSERT_EQ(drive(route(), out("a"), flags + "fp16").code, 0);
  ASSERT_EQ(drive(route() / name(1), out("b"), flags + "fp32").code, 0);
  const std::string strict = flags + "fp16 --json --tolerance-scale 0 --reference " + in_quotes(out("a"));
  for (const int limit : {0, 4}) {
    const ProgramResult part = drive(route() / name(0), out("b"), strict + " --limit " + std::to_string(limit));
    ASSERT_EQ(part.code, 0) << part.err;
    const json fields = json::parse(part.out)["comparison"]["drives"][1]["fields"];
    EXPECT_EQ(fields["frames"], limit > 0 ? limit : kSegmentFrames);
    EXPECT_EQ(fields["frames_only_ours"], 0);
    EXPECT_EQ(fields["frames_only_reference"], 0);
  }
  const fs::path segment = a_segment();
  write_video(segment / "fcamera.hevc", 10, 2);
  const ProgramResult cut =
      drive(segment, out("c"), flags + "fp16 --tolerance-scale 1e9 --reference " + in_quotes(out("a")));
  EXPECT_EQ(cut.code, 4) << cut.err;
  EXPECT_NE(cut.out.find("14 only in the reference: not the same, frames of the reference are missing"),
            std::string::npos)
      << cut.out;
}

TEST_F(CompareRoute, LimitsMakeItACheck) {
  const ProgramResult beyond = run_program(of_models("--precision fp32,fp16 --limit 4 --quiet --max-plan-error 1e-12"));
  EXPECT_EQ(beyond.code, 4);
  EXPECT_NE(beyond.err.find("fp16, plan at 1 s: 99th percentile"), std::string::npos) << beyond.err;
  EXPECT_EQ(run_program(of_models("--precision fp32,fp16 --limit 4 --quiet --max-plan-error 100")).code, 0);
}

// A drive that was cut short is no pass, however well the rest agrees.
TEST_F(CompareRoute, FramesThatOnlyTheFirstHasFailTheCheck) {
  const std::string flags = "--no-overlay --threads 1 ";
  ASSERT_EQ(drive(route(), out("whole"), flags).code, 0);
  ASSERT_EQ(drive(route() / name(0), out("part"), flags).code, 0);
  const std::string whole = in_quotes(out("whole")), part = in_quotes(out("part")), limit = " --max-plan-error 100";
  const ProgramResult cut = run_program("compare " + whole + " " + part + limit);
  EXPECT_EQ(cut.code, 4);
  EXPECT_NE(cut.err.find("24 frames only in the first drive"), std::string::npos) << cut.err;
  EXPECT_EQ(run_program("compare " + part + " " + whole + limit).code, 0);
}

// Tab completion ends a folder with a slash.
TEST_F(CompareRoute, FoldersHaveTheirNames) {
  fs::copy(models(), out("old"));
  fs::copy(models(), out("new"));
  const json document = run(compare("--models '" + out("old").string() + "/' --models " + in_quotes(out("new")) +
                                    " --limit 2 --out " + in_quotes(out("kept"))));
  EXPECT_EQ(document["variants"][0]["name"], "old");
  EXPECT_EQ(document["variants"][1]["name"], "new");
  EXPECT_TRUE(fs::exists(out("kept") / "old" / name(0) / "rlog.zst"));
}

TEST_F(CompareRoute, WrongUsageIsRefused) {
  const std::string model = in_quotes(models() / "tiny_driving_policy.onnx");
  expect_refused(run_program(of_models("--precision fp32")), "nothing to compare");
  expect_refused(run_program(of_models("--precision fp32,int7")), "int7");
  const std::string no_threads = "compare --models " + in_quotes(models()) + " --route " + in_quotes(route());
  expect_refused(run_program(no_threads + " --threads 1,1"), "--threads: 1 is given twice");
  expect_refused(run_program(no_threads + " --threads 1,many"), "--threads: expected a whole number");
  expect_refused(run_program(no_threads + " --threads 1,100000"), "--threads 100000");
  expect_refused(run_program(no_threads + " --threads 1"), "--threads 1,2");
  expect_refused(run_program(of_models("--precision fp32,fp16 --peer onnxruntime")), "--peer is for model files");
  expect_refused(run_program(of_models("--precision fp32,fp16 --max-abs 1")), "--max-abs");
  expect_refused(run_program(of_models("--precision fp32,fp16 " + model)), "no other models are driven");
  expect_refused(run_program(of_models("--precision fp32,fp16 --limit -1")), "--limit");
  expect_refused(run_program(compare("--precision fp32,fp16 --models /nowhere")), "/nowhere");
  expect_refused(run_program("compare " + model + " --precision fp32,fp16 --limit 3"), "--limit is for --route");
  expect_refused(run_program(of_models("--precision fp32,fp16 --no-time")), "--no-time is for model files");
  expect_refused(run_program("compare " + model + " " + model + " --calibrate /nowhere"), "--calibrate is for");
  expect_refused(run_program("compare " + model + " " + model + " --peer-timeout 3"), "--peer-timeout is for");
  expect_refused(run_program("compare"), "--route ROUTE");
  expect_refused(run_program(of_models("--precision fp32,fp16 --video")), "--video is for --out");
  expect_refused(run_program("compare " + model + " " + model + " --video --out " + in_quotes(out())),
                 "--video is for drives");
  expect_refused(run_program(of_models("--precision fp32,fp16 --out " + in_quotes(route()))), "recording");
  expect_refused(run_program("compare --route /nowhere --models " + in_quotes(models()) + " --precision fp32,fp16"),
                 "/nowhere");
}

// Frames of a route as the inputs of one network, whoever runs it.
TEST_F(CompareRoute, FramesAreInputsOfModelFiles) {
  const std::string vision = in_quotes(models() / "tiny_driving_vision.onnx"),
                    frames = "compare " + vision + " --threads 1 --no-time --route " + in_quotes(route());
  const json both = run(frames + " --frames 5 --precision fp32,fp16 --peer '" + SPARKPILOT_PROGRAM + "'");
  EXPECT_EQ(both["samples"], 5);
  ASSERT_EQ(both["variants"].size(), 4u);
  EXPECT_GT(both["variants"][1]["outputs"][0]["relative_l2"], 0.0);
  EXPECT_TRUE(both["variants"][2]["not_run"].is_null()) << both["variants"][2]["not_run"];
  EXPECT_EQ(both["variants"][2]["outputs"][0]["relative_l2"], 0.0);
  // Other inputs than random ones, and other ones than fewer frames have.
  const json random = run("compare " + vision + " --threads 1 --no-time --precision fp32,fp16"),
             fewer = run(frames + " --frames 2 --precision fp32,fp16");
  EXPECT_EQ(fewer["samples"], 2);
  EXPECT_NE(both["variants"][1]["outputs"], random["variants"][1]["outputs"]);
  EXPECT_NE(both["variants"][1]["outputs"], fewer["variants"][1]["outputs"]);
  const json int8 = run(frames + " --frames 3 --precision fp32,int8");
  EXPECT_NE(int8["notes"][0].get<std::string>().find("calibrated on 3 samples, the inputs"), std::string::npos)
      << int8["notes"];
  EXPECT_EQ(run_program("compare " + vision + " " + vision + " --bisect --frames 3 --route " + in_quotes(route())).code,
            0);
  expect_refused(run_program(frames + " --precision fp32,fp16 --frames 0"), "--frames 0: expected 1 to 1000");
  expect_refused(run_program(frames + " --precision fp32,fp16 --limit 3"), "--limit");
}

// Each for the network whose hash it has, where the precision is fp8.
TEST_F(CompareRoute, TakesCalibrations) {
  const fs::path made = folder.path() / "policy.json";
  ASSERT_EQ(run_program("model calibrate --quiet --route " + in_quotes(route()) + " --frames 4 --out " +
                        in_quotes(made) + " " + in_quotes(models() / "tiny_driving_policy.onnx"))
                .code,
            0);
  const std::string with = " --limit 4 --calibration " + in_quotes(made);
  const json plain = run(of_models("--precision fp32,fp8 --limit 4")),
             calibrated = run(of_models("--precision fp32,fp8" + with));
  EXPECT_EQ(plain["drives"][0]["terms"], calibrated["drives"][0]["terms"]);
  EXPECT_GT(plain["drives"][1]["terms"][0]["max"], 0);
  EXPECT_NE(plain["drives"][1]["terms"][0]["max"], calibrated["drives"][1]["terms"][0]["max"]);

  expect_refused(run_program(of_models("--precision fp32,fp16" + with)), "without --precision fp8");
  const fs::path other = out("other");
  ASSERT_EQ(
      run_program("zoo build --quiet --seed 2 tiny_driving_vision tiny_driving_policy --out " + in_quotes(other)).code,
      0);
  expect_refused(run_program(compare("--models " + in_quotes(other) + " --precision fp32,fp8 --quiet" + with)),
                 "was made for a model with the hash");
  // Of two folders it is the first one's.
  const json two =
      run(compare("--models " + in_quotes(models()) + " --models " + in_quotes(other) + " --precision fp8" + with));
  EXPECT_EQ(two["variants"].size(), 2u);
}

// Weights in fewer bits for as long as the plan stays where it was, in metres.
TEST_F(CompareRoute, QuantizesToAPlanError) {
  const fs::path small = folder.path() / "small.onnx";
  const auto quantize = [&](const std::string& flags) {
    fs::remove(small);
    return "model quantize --quiet --fp8 --threads 1 " + in_quotes(models() / "tiny_driving_policy.onnx") + " " +
           in_quotes(small) + " --route " + in_quotes(route()) + " --frames 6 " + flags;
  };
  const json all = run(quantize("--budget 1G")), free = run(quantize("--target-plan-error 1000"));
  EXPECT_EQ(free["samples"], 6);
  EXPECT_EQ(all["weight_bytes"], all["kept_weight_bytes"]) << "nothing had to go";
  const double most = free["worst_sample_plan_error_m"];
  EXPECT_GT(most, 0);
  const json kept = run(quantize("--target-plan-error " + std::to_string(most / 2)));
  EXPECT_LE(kept["worst_sample_plan_error_m"].get<double>(), most / 2);
  EXPECT_GT(kept["weight_bytes"], free["weight_bytes"]);
  EXPECT_LT(kept["weight_bytes"], kept["kept_weight_bytes"]);
  EXPECT_GE(kept["layers"][0]["alone_in_fp8_plan_error_m"], 0);

  expect_refused(run_program(quantize("--target-plan-error 1 --target-error 1")), "give one of them");
  expect_refused(run_program(quantize("--target-error 1 --calibrate x.npy")), "--calibrate and --route");
  expect_refused(run_program(quantize("--target-error 1 --route /nowhere")), "/nowhere");
  EXPECT_FALSE(fs::exists(small)) << "nothing was written";
}

TEST_F(CompareRoute, CtrlCEndsTheQuantizing) {
  const std::string temporary = folder.file("temporary");
  fs::create_directories(temporary);
  Background run({"compare", "--route", route().string(), "--models", models().string(), "--precision", "fp32,int8",
                  "--threads", "1", "--quiet"},
                 {"env", "TMPDIR=" + temporary});
  // The scratch folder of the calibration goes when the quantizing begins.
  const auto drives = [&] {
    int found = 0;
    for (const auto& entry : fs::recursive_directory_iterator(temporary))
      found += entry.path().filename() == "rlog.zst";
    return found;
  };
  for (int i = 0; i < 6000 && drives() == 0 && !run.ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_TRUE(fs::is_empty(temporary));
}

TEST_F(CompareRoute, CtrlCLeavesNothingHalfWritten) {
  Background run({"compare", "--route", route().string(), "--models", models().string(), "--precision", "fp32,fp16",
                  "--threads", "1", "--quiet", "--out", out("stopped").string()});
  ASSERT_TRUE(run.wait_for(out("stopped") / "fp16" / name(0) / "segment.json"));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_EQ(left_over(out("stopped")), "");
}

}  // namespace compare_route_test
}  // namespace sparkpilot
