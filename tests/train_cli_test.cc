// sparkpilot train, on small synthetic data sets.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <tuple>

#include "base/folder_lock.h"
#include "hw/cpu.h"
#include "sparkpilot/onnx.h"
#include "tensor/difference.h"
#include "train_fixture.h"

namespace sparkpilot {
namespace train_cli_test {

namespace fs = std::filesystem;

std::vector<json> metrics_of(const std::string& run) {
  std::istringstream lines(read_text(run + "/metrics.jsonl"));
  std::vector<json> out;
  for (std::string line; std::getline(lines, line);) out.push_back(json::parse(line));
  return out;
}
// Of the first updates.
std::vector<double> losses_of(const std::string& run, size_t updates) {
  std::vector<double> out;
  for (const json& line : metrics_of(run)) {
    if (line.contains("loss") && out.size() < updates) out.push_back(line["loss"]);
  }
  return out;
}

TEST_F(TrainCli, AnAdapterForBothNetworks) {
  const json done =
      parsed(both() + out("run") + "--batch 2 --updates 6 --rank 2 --rate 5e-3 --schedule constant --threads 1");
  EXPECT_EQ(keys(done), Keys({"ended", "reason", "updates", "seconds", "first_loss", "loss", "evaluation_loss",
                              "best_evaluation_loss", "checkpoint", "written", "report_html"}));
  EXPECT_EQ(done["ended"], "updates");
  EXPECT_TRUE(done["reason"].is_null()) << done["reason"];  // as summary.json has it
  EXPECT_LT(done["loss"].get<double>(), done["first_loss"].get<double>());
  EXPECT_TRUE(done["evaluation_loss"].is_number());
  ASSERT_EQ(done["written"].size(), 2u);
  const ProgramResult fits = run_program("adapter info '" + done["written"][0].get<std::string>() + "' --model '" +
                                         shared->file("models") + "/tiny_driving_vision.onnx'");
  EXPECT_EQ(fits.code, 0) << fits.err;
  // metrics.jsonl has distances in metres.
  const std::string metrics = read_text(folder.file("run") + "/metrics.jsonl");
  EXPECT_NE(metrics.find("plan_error_4s"), std::string::npos);
  EXPECT_NE(metrics.find("loss.plan"), std::string::npos);
}

// What layers compute is compared with a teacher's of the same layers; its path is kept for --resume and --from.
TEST_F(TrainCli, ATeachersLayersAreALoss) {
  const std::string flags = "--batch 2 --schedule constant --rank 2 --threads 1 --rate 2e-3 --dtype fp32 --no-rollout ";
  const std::string teacher = "--teacher '" + shared->file("models") + "' --loss layers=10 ";
  parsed(both() + out("run") + flags + teacher + "--match '.*(fc|conv).*' --updates 4");
  EXPECT_TRUE(metrics_of(folder.file("run")).back()["evaluation_reports"].contains("loss.layers"));
  parsed("--updates 6 --resume '" + folder.file("run") + "'");
  parsed("--from '" + folder.file("run") + "/train.json' " + out("again"));
  EXPECT_EQ(losses_of(folder.file("again"), 4), losses_of(folder.file("run"), 4));
  // One network alone, by the file's name.
  parsed("--network vision " + both() + out("vision") + flags + "--teacher '" + shared->file("models") +
         "/tiny_driving_vision.onnx' --updates 2");
  expect_refused(both() + out("x") + flags + "--match fc --updates 1", "--match is for layers of --teacher");
  expect_refused(both() + out("x") + flags + "--loss layers=2 --updates 1", "there is no head \"layers\"");
  expect_refused(both() + out("x") + flags + teacher + "--match nothing --updates 1", "no layer's path matches");
}

// Features of the past by the student itself: in training where asked for, in evaluations always.
TEST_F(TrainCli, OwnFeaturesGoOnToTheSameBits) {
  const std::string flags = "--batch 2 --schedule constant --kind lora --rank 2 --threads 1 --rate 5e-3 --dtype fp32 ";
  // A pass is five updates; the second run ends within one, and goes on within it.
  parsed(both() + out("whole") + flags + "--own-features --updates 12 --checkpoint-every 4");
  parsed(both() + out("parts") + flags + "--own-features --updates 8 --checkpoint-every 4");
  const std::string features = folder.file("parts") + "/own_features/update_00000005.safetensors";
  EXPECT_TRUE(fs::exists(features));
  fs::copy(folder.file("parts"), folder.file("lost"), fs::copy_options::recursive);
  parsed("--updates 12 --resume '" + folder.file("parts") + "'");
  const std::string file = "/adapter_policy/adapter_model.safetensors";
  const std::string whole = read_text(folder.file("whole") + file);
  EXPECT_TRUE(read_text(folder.file("parts") + file) == whole);
  EXPECT_FALSE(fs::exists(features));  // no checkpoint needs it any more
  // Without them it says so and goes on otherwise.
  fs::remove_all(folder.file("lost") + "/own_features");
  const ProgramResult lost = run_program("train --updates 12 --resume '" + folder.file("lost") + "'");
  EXPECT_EQ(lost.code, 0) << lost.err;
  EXPECT_NE(lost.err.find("features of the past of update 8"), std::string::npos) << lost.err;
  EXPECT_TRUE(read_text(folder.file("lost") + file) != whole);
  parsed(both() + out("teacher") + flags + "--updates 12");
  EXPECT_TRUE(read_text(folder.file("teacher") + file) != whole);
  // The first pass with the teacher's features: its updates are those of a run without --own-features, the next ones
  // not, and a run that ends in it goes on to the same bits.
  parsed(both() + out("first") + flags + "--own-features --teacher-features 1 --updates 12");
  EXPECT_EQ(losses_of(folder.file("first"), 5), losses_of(folder.file("teacher"), 5));
  EXPECT_NE(losses_of(folder.file("first"), 7), losses_of(folder.file("teacher"), 7));
  EXPECT_FALSE(fs::exists(folder.file("first") + "/own_features/update_00000000.safetensors"));
  parsed(both() + out("first_parts") + flags + "--own-features --teacher-features 1 --updates 3");
  parsed("--updates 12 --resume '" + folder.file("first_parts") + "'");
  EXPECT_TRUE(read_text(folder.file("first_parts") + file) == read_text(folder.file("first") + file));
  // Both evaluations, which differ.
  int evaluations = 0;
  for (const json& metrics : metrics_of(folder.file("teacher"))) {
    if (!metrics.contains("evaluation_loss")) continue;
    ++evaluations;
    const json& reports = metrics["evaluation_reports"];
    EXPECT_NE(reports["rollout_plan_error_4s"], reports["plan_error_4s"]);
    EXPECT_EQ(reports["rollout_loss.lane_lines"], reports["loss.lane_lines"]);  // which has no memory
  }
  EXPECT_EQ(evaluations, 3);
  expect_refused(both() + out("x") + "--teacher-features 1 --updates 1 --rank 1",
                 "--teacher-features is of --own-features");
  expect_refused(both() + out("x") + "--network policy --own-features --updates 1 --rank 1",
                 "no network that makes the features");
  expect_refused(both() + out("x") + "--network vision --own-features --updates 1 --rank 1",
                 "reads no features of the past");
}

// The pictures of a page, as its text holds them.
std::vector<std::string> pictures_of(const std::string& page) {
  std::vector<std::string> out;
  const std::string begin = "data:image/jpeg;base64,";
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    out.push_back(page.substr(at, page.find('"', at) - at));
  }
  return out;
}

TEST_F(TrainCli, WritesAPageAtTheEndAndWhenInterrupted) {
  const std::string flags = "--network policy --batch 2 --schedule constant --kind lora --rank 2 --threads 1 ";
  const std::string page = folder.file("run") + "/report.html";
  // A limit that is not reached.
  const ProgramResult stopped = run_program("train " + both() + out("run") + flags + "--rate 3e-2 --minutes 50",
                                            "timeout --foreground --preserve-status -s INT 6");
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_NE(stopped.err.find("sparkpilot train --resume " + folder.file("run") + " goes on with it"), std::string::npos)
      << stopped.err;
  EXPECT_NE(stopped.out.find("interrupted after"), std::string::npos) << stopped.out;
  EXPECT_NE(stopped.out.find("report: " + page), std::string::npos) << stopped.out;
  const json summary = json::parse(read_text(folder.file("run") + "/summary.json"));
  EXPECT_EQ(summary["ended"], "interrupted");
  EXPECT_TRUE(fs::exists(summary["checkpoint"].get<std::string>() + "/states.safetensors")) << summary["checkpoint"];
  const std::string first = read_text(page);
  EXPECT_NE(first.find("Distance of the plan from the target"), std::string::npos);
  EXPECT_NE(first.find("frame "), std::string::npos);
  // Six samples, before and after, and the model has moved between.
  const std::vector<std::string> pictures = pictures_of(first);
  ASSERT_EQ(pictures.size(), 12u);
  for (size_t i = 0; i < pictures.size(); i += 2) EXPECT_NE(pictures[i], pictures[i + 1]) << i;
  // A run that goes on shows the same model as the one before training.
  const json done = parsed("--minutes 1e-3 --resume '" + folder.file("run") + "'");
  EXPECT_EQ(done["report_html"], page);
  EXPECT_EQ(done["ended"], "minutes");
  const std::vector<std::string> again = pictures_of(read_text(page));
  ASSERT_EQ(again.size(), 12u);
  for (size_t i = 0; i < pictures.size(); i += 2) EXPECT_EQ(again[i], pictures[i]) << i;
}

TEST_F(TrainCli, StopsAndGoesOnToTheSameBits) {
  const std::string flags = "--network policy --batch 2 --schedule constant --kind lora --rank 2 --threads 1 ";
  parsed(both() + out("whole") + flags + "--updates 8 --checkpoint-every 3");
  // The same, interrupted by a limit of fewer updates. A flag beside --resume wins, and stays.
  parsed(both() + out("parts") + flags + "--updates 5 --checkpoint-every 3");
  EXPECT_EQ(parsed("--resume '" + folder.file("parts") + "' --updates 6")["updates"], 6);
  EXPECT_EQ(json::parse(read_text(folder.file("parts") + "/train.json"))["updates"], 6);
  const json done = parsed("--resume '" + folder.file("parts") + "' --updates 8");
  EXPECT_EQ(done["updates"], 8);
  const std::string file = "/adapter/adapter_model.safetensors";
  EXPECT_EQ(read_text(folder.file("parts") + file), read_text(folder.file("whole") + file));
  // With nothing left to do it says so, and the files stay as they are.
  const std::string command = read_text(folder.file("parts") + "/train.json"),
                    summary = read_text(folder.file("parts") + "/summary.json");
  const ProgramResult over = run_program("train --resume '" + folder.file("parts") + "' --rate 0.5");
  EXPECT_EQ(over.code, 0) << over.err;
  EXPECT_NE(over.out.find("nothing is left to do: updates after 8 updates"), std::string::npos) << over.out;
  EXPECT_EQ(read_text(folder.file("parts") + "/train.json"), command);
  EXPECT_EQ(read_text(folder.file("parts") + "/summary.json"), summary);
  write_text(folder.file("parts") + "/summary.json", "[1]");  // of somebody else: the run goes on, and writes it anew
  EXPECT_EQ(parsed("--resume '" + folder.file("parts") + "' --updates 8")["updates"], 8);
  write_text(folder.file("parts") + "/summary.json", summary);
  std::filesystem::remove_all(folder.file("parts") + "/checkpoints");
  expect_refused("--resume '" + folder.file("parts") + "' --updates 9", "without a checkpoint to go on from");
  EXPECT_EQ(read_text(folder.file("parts") + "/summary.json"), summary);
  // Another run in the same folder is refused, and so is one without a beginning.
  expect_refused(both() + out("whole") + flags + "--updates 8", "whole");
  expect_refused("--resume '" + folder.file("nowhere") + "'", "train.json");
  write_text(folder.file("bad") + "/train.json", "{\"format\": 3}");
  expect_refused("--resume '" + folder.file("bad") + "'", "train.json");
  expect_refused("--resume '" + folder.file("whole") + "' " + out("other"), "it takes no --out");
}

// What is refused leaves the flags of the run that is there, and no folder where none was.
TEST_F(TrainCli, ARefusedRunChangesNothing) {
  const std::string flags = "--network policy --batch 2 --schedule constant --kind lora --threads 1 ";
  parsed(both() + out("run") + flags + "--rank 2 --updates 2");
  const std::string command = folder.file("run") + "/train.json", before = read_text(command);
  expect_refused(both() + out("run") + flags + "--rank 3 --updates 9", "holds a run of 2 updates");
  EXPECT_EQ(read_text(command), before);
  expect_refused("--rank 3 --updates 9 --resume '" + folder.file("run") + "'", "states.safetensors");
  EXPECT_EQ(read_text(command), before);
  {
    const FolderLock held(folder.file("run"));
    expect_refused("--updates 9 --resume '" + folder.file("run") + "'", "is writing into this folder");
    EXPECT_EQ(read_text(command), before);
  }
  // With another loss the best evaluation is one from now on, however small the losses of before were.
  const ProgramResult other =
      run_program("train --json --updates 3 --loss plan=50 --resume '" + folder.file("run") + "'");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("another target: teacher, plan=50, was teacher"), std::string::npos) << other.err;
  const json summary = json::parse(read_text(folder.file("run") + "/summary.json"));
  EXPECT_EQ(summary["updates"], 3);
  EXPECT_EQ(summary["best_updates"], 3);

  const std::string few = folder.file("few"), model = shared->file("one") + "/tiny_driving_supercombo.onnx";
  run("dataset build --quiet --synthetic 1 --seconds 1 --validation 0 --min-speed 0 --no-teacher --supercombo '" +
      model + "' --out '" + few + "'");
  const std::string on_few = "--supercombo '" + model + "' --data '" + few + "' --against labels --updates 1 ";
  expect_refused(on_few + out("none") + "--patience 1", "--patience 1: ");
  EXPECT_FALSE(fs::exists(folder.file("none")));
  const ProgramResult unjudged = run_program("train --threads 1 --batch 1 --rank 1 " + on_few + out("unjudged"));
  EXPECT_EQ(unjudged.code, 0) << unjudged.err;
  EXPECT_NE(unjudged.err.find("no samples for validation: no evaluations"), std::string::npos) << unjudged.err;
  // The same where there is a route for validation, of which no clip was made.
  auto info = nlohmann::ordered_json::parse(read_text(few + "/dataset.json"));  // its identity is of what is in order
  info["routes"].push_back({{"name", "not made"}, {"split", "validation"}});
  write_text(few + "/dataset.json", info.dump());
  EXPECT_EQ(parsed(on_few + "--threads 1 --batch 1 --rank 1 " + out("not_made"))["updates"], 1);
  expect_refused(on_few + "--out '" + few + "'", "is the folder of a data set");
  EXPECT_FALSE(fs::exists(few + "/train.json"));
}

// A rate that destroys what is trained: what is saved is from before, or nothing.
TEST_F(TrainCli, WhatIsSavedAfterNanIsSound) {
  const std::string flags = "--network policy --batch 2 --schedule constant --rank 2 --threads 1 ";
  const auto diverged = [&](const std::string& words, const std::string& run) -> json {
    const ProgramResult result = run_program("train --json --rate 1e5 --updates 50 " + words);
    EXPECT_EQ(result.code, 4) << words << result.err;
    EXPECT_TRUE(fs::exists(folder.file(run) + "/report.html")) << words;
    const json summary = json::parse(read_text(folder.file(run) + "/summary.json"));
    EXPECT_EQ(summary["ended"], "not finite");
    EXPECT_NE(summary["reason"].get<std::string>().find(" is not finite"), std::string::npos) << summary["reason"];
    EXPECT_EQ(summary["reason"].get<std::string>().find("-nan"), std::string::npos) << summary["reason"];
    const json done = json::parse(result.out, nullptr, false);
    EXPECT_EQ(done["reason"], summary["reason"]);
    EXPECT_EQ(done["written"].empty(), result.err.find("nothing is saved") != std::string::npos) << result.err;
    return done;
  };
  for (const std::string more : {"", "--merged ", "--checkpoint-every 1 "}) {
    const std::string name = "run" + more.substr(0, more.find(' '));
    const json done = diverged(both() + out(name) + flags + more, name);
    EXPECT_TRUE(done["written"].empty()) << done["written"];
    EXPECT_TRUE(done["checkpoint"].is_null()) << done["checkpoint"];
    EXPECT_FALSE(fs::exists(folder.file(name) + "/adapter"));
  }
  const json whole = diverged(one() + out("whole") +
                                  "--mode full --against labels --batch 2 --threads 1 "
                                  "--schedule constant ",
                              "whole");
  EXPECT_TRUE(whole["written"].empty()) << whole["written"];
  EXPECT_FALSE(fs::exists(folder.file("whole") + "/tiny_driving_supercombo.onnx"));
  // A run that was sound for a while.
  parsed(both() + out("late") + flags + "--updates 4");
  const std::string adapter = folder.file("late") + "/adapter", file = adapter + "/adapter_model.safetensors";
  const std::string before = read_text(file);
  const json late = diverged("--checkpoint-every 1 --resume '" + folder.file("late") + "'", "late");
  EXPECT_EQ(late["written"], json({adapter}));
  EXPECT_TRUE(late["checkpoint"].get<std::string>().ends_with("update_00000004")) << late["checkpoint"];
  EXPECT_EQ(read_text(file), before);
  EXPECT_FALSE(fs::exists(folder.file("late") + "/checkpoints/update_00000005"));
  EXPECT_EQ(parsed("--rate 1e-3 --updates 6 --resume '" + folder.file("late") + "'")["updates"], 6);
}

// An adapter is the state of the run that wrote it.
TEST_F(TrainCli, BeginsWithAnAdapterWhereItEnded) {
  // Every step has the same samples.
  const std::string flags =
      "--network policy --batch 2 --overfit 2 --schedule constant --rate 5e-3 --threads 1 --evaluate-every 100 ";
  const json first = parsed(both() + out("first") + flags + "--rank 2 --dtype fp32 --updates 5");
  const std::string begun = flags + "--updates 1 --init-adapter '" + folder.file("first") + "/adapter' ";
  const json next = parsed(both() + out("next") + begun);
  expect_refused(both() + out("x") + begun + "--dtype fp32", "--dtype is for new adapters");
  expect_refused(both() + out("x") + begun + "--kind lora", "--kind is for new adapters");
  const json resumed = parsed("--updates 6 --resume '" + folder.file("first") + "'");
  const auto loss = resumed["first_loss"].get<double>();
  EXPECT_NEAR(next["first_loss"].get<double>(), loss, 1e-4 * std::abs(loss));
  EXPECT_LT(loss, 0.5 * first["first_loss"].get<double>());
}

// On a file system of its own, which is full after some checkpoints.
TEST_F(TrainCli, AFullDiskLeavesTheLastCheckpoint) {
  const std::string small = folder.file("small"), kept = folder.file("kept");
  fs::create_directory(small);
  const auto mounted = [&](const std::string& size) {
    return "unshare -m sh -c 'mount -t tmpfs -o size=" + size + " none \"" + small + "\" || exit 77; " +
           "\"$0\" \"$@\"; code=$?; cp -a \"" + small + "\" \"" + kept + "\"; exit $code'";
  };
  if (run_program("version", mounted("1m")).code != 0) GTEST_SKIP() << "no file system may be mounted here";
  fs::remove_all(kept);
  const std::string flags = "--network policy --batch 2 --schedule constant --kind lora --rank 2 --threads 1 ";
  const ProgramResult full = run_program("train " + both() + "--out '" + small + "/run' " + flags +
                                             "--quiet --updates 500 --checkpoint-every 1 --keep 500",
                                         mounted("3m"));
  EXPECT_EQ(full.code, 2);
  EXPECT_EQ(std::count(full.err.begin(), full.err.end(), '\n'), 1) << full.err;
  EXPECT_NE(full.err.find("No space left on device"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find(small), std::string::npos) << full.err;
  const std::set<fs::path> checkpoints = [&] {
    std::set<fs::path> all;
    for (const auto& entry : fs::directory_iterator(kept + "/run/checkpoints")) all.insert(entry.path());
    return all;
  }();
  ASSERT_GT(checkpoints.size(), 2u);
  for (const fs::path& path : checkpoints) EXPECT_TRUE(path.filename().string().starts_with("update_")) << path;
  const auto last = std::stoll(checkpoints.rbegin()->filename().string().substr(7));
  EXPECT_LT(last, 500);
  // Where there is room, it goes on.
  const json more = parsed("--resume '" + kept + "/run' --keep 2 --updates " + std::to_string(last + 2));
  EXPECT_EQ(more["updates"], last + 2);
}

// The precision is kept with the run; another one at --resume is said.
TEST_F(TrainCli, Bf16GoesOnToTheSameBits) {
  const std::string flags = "--network policy --batch 2 --schedule constant --rank 2 --threads 1 --checkpoint-every 2 ";
  const CpuFeatures& cpu = cpu_features();
  if (!cpu.avx512_bf16 && !cpu.amx_bf16 && !cpu.neon_bf16) {
    expect_refused(both() + out("refused") + flags + "--updates 4 --precision bf16",
                   "needs a CPU with bf16 arithmetic");
    return;
  }
  parsed(both() + out("exact") + flags + "--updates 4 --merged");
  parsed(both() + out("whole") + flags + "--updates 4 --merged --precision bf16");
  parsed(both() + out("parts") + flags + "--updates 3 --precision bf16");
  parsed("--resume '" + folder.file("parts") + "' --updates 4");
  const auto summary = [&](const char* run) { return json::parse(read_text(folder.file(run) + "/summary.json")); };
  EXPECT_EQ(summary("exact")["precision"], "fp32");
  EXPECT_EQ(summary("whole")["precision"], "bf16");
  EXPECT_EQ(summary("parts")["precision"], "bf16");
  EXPECT_NE(summary("whole")["loss"], summary("exact")["loss"]);
  EXPECT_NEAR(summary("whole")["loss"].get<double>(), summary("exact")["loss"].get<double>(),
              2e-2 * summary("exact")["loss"].get<double>());
  const std::string file = "/adapter/adapter_model.safetensors";
  EXPECT_EQ(read_text(folder.file("parts") + file), read_text(folder.file("whole") + file));
  // What is written has the same tensors, of the same types.
  const auto exact = tensors_of(folder.file("exact") + file), rounded = tensors_of(folder.file("whole") + file);
  ASSERT_EQ(rounded.size(), exact.size());
  for (const auto& [name, tensor] : exact) EXPECT_EQ(rounded.at(name).dtype(), tensor.dtype()) << name;
  const ProgramResult other = run_program("train --resume '" + folder.file("whole") + "' --updates 5 --precision fp32");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("another precision: fp32, was bf16"), std::string::npos) << other.err;
}

// Frozen weights of 8 and 4 bits are kept with the run's flags, and the merged model is the file's.
TEST_F(TrainCli, AFrozenBaseOfFewerBitsGoesOnToTheSameBits) {
  const std::string flags = "--network policy --batch 2 --schedule constant --kind lora --rank 2 --threads 1 ";
  const std::string file = "/adapter/adapter_model.safetensors";
  parsed(both() + out("fp32") + flags + "--updates 3");
  for (const std::string base : {"fp8", "fp4"}) {
    const std::string with = flags + "--base-precision " + base + " ";
    const ProgramResult whole = run_program("train " + both() + out(base) + with + "--updates 3 --merged --json");
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_NE(whole.err.find(" bytes in fp32 are kept in "), std::string::npos) << whole.err;
    parsed(both() + out("parts_" + base) + with + "--updates 2");
    parsed("--resume '" + folder.file("parts_" + base) + "' --updates 3");
    EXPECT_EQ(read_text(folder.file("parts_" + base) + file), read_text(folder.file(base) + file));
    EXPECT_NE(read_text(folder.file("fp32") + file), read_text(folder.file(base) + file));
    EXPECT_TRUE(fs::exists(folder.file(base) + "/tiny_driving_policy.onnx"));
    const ProgramResult other =
        run_program("train --resume '" + folder.file(base) + "' --updates 4 --base-precision fp32");
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_NE(other.err.find("another precision of frozen weights: fp32, was " + base), std::string::npos) << other.err;
  }
  expect_refused(both() + out("x") + "--updates 1 --mode full --base-precision fp8",
                 "--base-precision is for adapters");
  expect_refused(both() + out("x") + "--updates 1 --base-precision fp16", "--base-precision");
}

// DoRA's norms from the changed weights themselves: the same within rounding, kept with the run's flags.
TEST_F(TrainCli, ExactNormsGoOnToTheSameBits) {
  const std::string flags = "--network policy --batch 2 --schedule constant --rank 2 --threads 1 --dtype fp32 ";
  const std::string file = "/adapter/adapter_model.safetensors", exact = "--dora-norm exact ";
  parsed(both() + out("factored") + flags + "--updates 3 --no-rollout");
  parsed(both() + out("whole") + flags + exact + "--updates 3 --no-rollout");
  parsed(both() + out("parts") + flags + exact + "--updates 2 --no-rollout");
  parsed("--resume '" + folder.file("parts") + "' --updates 3");
  EXPECT_TRUE(read_text(folder.file("parts") + file) == read_text(folder.file("whole") + file));
  EXPECT_EQ(json::parse(read_text(folder.file("whole") + "/train.json"))["dora_norm"], "exact");
  const std::map<std::string, Tensor> expected = tensors_of(folder.file("factored") + file);
  EXPECT_TRUE(read_text(folder.file("whole") + file) != read_text(folder.file("factored") + file));
  for (const auto& [name, tensor] : tensors_of(folder.file("whole") + file)) {
    EXPECT_LE(difference_of(tensor.view(), expected.at(name).view()).relative_l2, 1e-3) << name;
  }
  const ProgramResult other =
      run_program("train --resume '" + folder.file("whole") + "' --updates 4 --dora-norm factored");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("another form of DoRA's norms: factored, was exact"), std::string::npos) << other.err;
  // Where there are none.
  for (const std::string kind : {"lora", "rslora"}) {
    expect_refused(both() + out("x") + "--updates 1 --dora-norm exact --kind " + kind,
                   "--dora-norm is for DoRA: it has no effect with --kind " + kind);
  }
  expect_refused(both() + out("x") + "--updates 1 --dora-norm exact --mode full", "--dora-norm is for adapters");
  const std::string begin = folder.file("begin");
  run("adapter create '" + shared->file("models") + "/tiny_driving_policy.onnx' --lora --rank 2 --out '" + begin + "'");
  expect_refused(both() + out("x") + "--network policy --updates 1 --dora-norm exact --init-adapter '" + begin + "'",
                 "exact norms are for DoRA");
}

TEST_F(TrainCli, BeginsWithTheFlagsOfAnotherRun) {
  parsed(both() + out("first") + "--network policy --batch 2 --schedule constant --kind lora --rank 2 --threads 1 " +
         "--updates 4 --loss plan=2 --seed 5 --warp 0.5");
  const std::string from = "--from '" + folder.file("first") + "/train.json' ";
  parsed(from + out("same"));
  const std::string file = "/adapter/adapter_model.safetensors";
  EXPECT_EQ(read_text(folder.file("same") + file), read_text(folder.file("first") + file));
  // Flags beside it win, those with their default value too; so does another model.
  const std::string models = folder.file("models");
  fs::copy(shared->file("models"), models);
  const json done = parsed(from + out("other") + "--updates 2 --batch 32 --warp 0 --models '" + models + "'");
  EXPECT_EQ(done["updates"], 2);
  json first = json::parse(read_text(folder.file("first") + "/train.json")),
       other = json::parse(read_text(folder.file("other") + "/train.json"));
  EXPECT_EQ(other["policy"], models + "/tiny_driving_policy.onnx");
  EXPECT_EQ(other["batch"], 32);
  EXPECT_EQ(other["warp"], 0);
  for (const char* key : {"updates", "batch", "warp", "vision", "policy"}) first.erase(key), other.erase(key);
  EXPECT_EQ(other, first);
  // A file written by hand: what it lacks has its default; what is unknown is refused.
  json own = {{"format", "sparkpilot training command"}, {"version", 1}, {"threads", 1}, {"rank", 3}, {"updates", 1}};
  write_text(folder.file("own.json"), own.dump());
  parsed(both() + out("own") + "--batch 2 --from '" + folder.file("own.json") + "'");
  EXPECT_EQ(json::parse(read_text(folder.file("own") + "/train.json"))["rank"], 3);
  own.erase("threads");
  write_text(folder.file("own.json"), own.dump());
  parsed(both() + out("own_threads") + "--batch 2 --from '" + folder.file("own.json") + "'");
  for (const auto& [key, value, wrong] : {std::tuple{"rank", json(3.9), "\"rank\" is 3.9, expected a whole number"},
                                          {"updates", json(1.7), "\"updates\" is 1.7"},
                                          {"threads", json(1.5), "\"threads\" is 1.5"},
                                          {"seed", json(-1), "\"seed\" is -1, expected a whole number from 0"},
                                          {"rate", json(true), "\"rate\" is true, expected a number"}}) {
    json with = own;
    with[key] = value;
    write_text(folder.file("own.json"), with.dump());
    expect_refused(both() + out("x") + "--batch 2 --from '" + folder.file("own.json") + "'", wrong);
  }
  own["ranks"] = 3;
  write_text(folder.file("own.json"), own.dump());
  expect_refused(both() + out("x") + "--from '" + folder.file("own.json") + "'", "\"ranks\" is no flag of train");
  own.erase("ranks");
  own["rank"] = "three";
  write_text(folder.file("own.json"), own.dump());
  expect_refused(both() + out("x") + "--from '" + folder.file("own.json") + "'", "own.json");
  expect_refused(from + "--resume '" + folder.file("first") + "'", "give one of them");
}

TEST_F(TrainCli, AWholeModelFromWhatIsTrue) {
  const json done =
      parsed(one() + out("run") + "--mode full --against labels --fresh --batch 2 --epochs 6 --rate 3e-3");
  EXPECT_LT(done["loss"].get<double>(), 0.7 * done["first_loss"].get<double>());
  ASSERT_EQ(done["written"].size(), 1u);
  const std::string model = "'" + done["written"][0].get<std::string>() + "'";
  EXPECT_EQ(run_program("model check " + model).code, 0);
  // Of the same types as it was, and it drives.
  const json before =
      json::parse(run_program("model info --json '" + shared->file("one") + "/tiny_driving_supercombo.onnx'").out);
  const json after = json::parse(run_program("model info --json " + model).out);
  EXPECT_EQ(after["weight_bytes"], before["weight_bytes"]);
  EXPECT_EQ(after["output_slices"], before["output_slices"]);
}

// A network's tables and masks are no weights, though the file has them beside the weights.
TEST_F(TrainCli, LeavesConstantsOfTheNetworkAlone) {
  ASSERT_EQ(run_program("zoo build --quiet demo_supercombo --out '" + folder.file("models") + "'").code, 0);
  const std::string model = folder.file("models") + "/demo_supercombo.onnx";
  const json done = parsed("--supercombo '" + model + "' --data '" + shared->file("roads") + "' " + out("run") +
                           "--mode full --against labels --updates 1 --batch 2 --rate 1e-2");
  const Graph before = load_onnx(model), after = load_onnx(done["written"][0].get<std::string>());
  std::map<std::string, Tensor> weights;
  for (int i = 0; i < before.value_count(); ++i) {
    const Value& v = before.value(ValueId{i});
    if (v.kind == ValueKind::constant) weights[v.name] = v.constant;
  }
  int same = 0, other = 0;
  for (int i = 0; i < after.value_count(); ++i) {
    const Value& v = after.value(ValueId{i});
    if (v.kind != ValueKind::constant) continue;
    ASSERT_TRUE(weights.contains(v.name)) << v.name;
    const Tensor& was = weights[v.name];
    ASSERT_EQ(v.constant.bytes(), was.bytes()) << v.name;
    const bool equal = std::memcmp(v.constant.raw(), was.raw(), static_cast<size_t>(was.bytes())) == 0;
    if (v.name.find("/Constant") != std::string::npos) {
      EXPECT_TRUE(equal) << v.name;
      ++same;
    } else {
      other += equal ? 0 : 1;
    }
  }
  EXPECT_GT(same, 50);
  EXPECT_GT(other, 100);
}

// A student whose scales are far below its errors has a loss in the hundred thousands without a limit.
TEST_F(TrainCli, AnAdaptersScalesCanBeLimitedToo) {
  const auto first_loss = [&](const std::string& name, const std::string& words) -> double {
    return parsed(one() + out(name) + "--against labels --updates 1 --batch 2 --rank 1 --threads 1 " +
                  words)["first_loss"];
  };
  const double unlimited = first_loss("a", ""), limited = first_loss("b", "--least-scale 1");
  EXPECT_LT(limited, unlimited);
  expect_refused(one() + out("c") + "--updates 1 --least-scale 2", "--least-scale 2: expected 0 to 1");
}

TEST_F(TrainCli, SaysWhatARunWouldTake) {
  const json dry = parsed(both() + out("dry") + "--batch 2 --updates 1 --dry-run");
  const ProgramResult text =
      run_program("train " + both() + out("dry") + "--batch 2 --updates 1 --threads 1 --dry-run");
  EXPECT_NE(text.out.find("a step of 2 samples on 1 thread:"), std::string::npos) << text.out;
  EXPECT_GT(dry["parameters"].get<int64_t>(), 0);
  EXPECT_GT(dry["step_ms"].get<double>(), 0);
  EXPECT_GT(dry["peak_memory_bytes"].get<int64_t>(), 1 << 20);
  EXPECT_FALSE(fs::exists(folder.file("dry")));
  // A batch that is larger by some samples takes as much more as was said.
  const int64_t a_sample = dry["bytes_a_sample"].get<int64_t>();
  EXPECT_GT(a_sample, 786432);  // its pictures
  EXPECT_GT(dry["batch_that_fits"].get<int64_t>(), 2);
  const json larger = parsed(both() + out("dry") + "--batch 66 --updates 1 --dry-run");
  const double more = larger["peak_memory_bytes"].get<double>() - dry["peak_memory_bytes"].get<double>();
  EXPECT_NEAR(more, 64.0 * static_cast<double>(a_sample), 0.35 * more);
  // One that does not fit is refused, by the machine's memory or a limit on the process.
  expect_refused(both() + out("x") + "--batch 3000000 --updates 1", "out of memory: it takes about");
  const ProgramResult limited =
      run_program("train " + both() + out("x") + "--batch 2048 --updates 1 --threads 1", "ulimit -v 1600000;");
  EXPECT_EQ(limited.code, 2) << limited.err;
  const size_t said = limited.err.find("a batch of ");
  ASSERT_NE(said, std::string::npos) << limited.err;
  const int64_t fits = std::stoll(limited.err.substr(said + 11));
  EXPECT_GT(fits, 8);
  // And that one is not.
  const ProgramResult fitting = run_program(
      fmt::format("train {}{}--batch {} --updates 1 --threads 1", both(), out("x"), fits), "ulimit -v 1600000;");
  EXPECT_EQ(fitting.code, 0) << fitting.err;
  // The data's own teacher has nothing to teach.
  const ProgramResult own =
      run_program("train --models '" + shared->file("teacher") + "' --data '" + shared->file("answers") + "' " +
                  out("own") + "--batch 2 --updates 1 --dry-run");
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_NE(own.err.find("nothing to learn"), std::string::npos) << own.err;
}

// Values that are computed again take less memory, and the run ends with the same bytes.
TEST_F(TrainCli, KeepsTheActivationsWithinABudget) {
  const std::string run = one() + "--batch 4 --updates 2 --threads 1 --mode full --against labels ";
  const auto least_of = [&](const std::string& command) {
    const ProgramResult refused = run_program("train " + command + out("x") + "--max-activations 1 --dry-run");
    EXPECT_EQ(refused.code, 2) << refused.err;
    const std::string before = "--max-activations 1: the activations of a step take at least ";
    const size_t said = refused.err.find(before);
    if (said == std::string::npos) ADD_FAILURE() << refused.err;
    EXPECT_NE(refused.err.find("not even a batch of 1 fits"), std::string::npos) << refused.err;
    return said == std::string::npos ? 1 : std::stoll(refused.err.substr(said + before.size()));
  };
  const int64_t least = least_of(run);
  const json whole = parsed(run + out("x") + "--dry-run");
  EXPECT_EQ(whole["nodes_computed_again"], 0);
  EXPECT_LT(least, whole["activation_bytes"].get<int64_t>());
  const std::string limit = fmt::format("--max-activations {} ", least);
  const json limited = parsed(run + out("x") + limit + "--dry-run");
  EXPECT_LE(limited["activation_bytes"].get<int64_t>(), least);
  EXPECT_GT(limited["nodes_computed_again"].get<int>(), 0);
  EXPECT_GT(limited["work_computed_again"].get<double>(), 0);
  EXPECT_LT(limited["bytes_a_sample"].get<int64_t>(), whole["bytes_a_sample"].get<int64_t>());
  EXPECT_NEAR(limited["batch_that_fits"].get<double>(), 4, 1);  // with the fewest activations of a batch of 4
  const json a = parsed(run + out("a")), b = parsed(run + out("b") + limit);
  EXPECT_EQ(read_text(a["written"][0]), read_text(b["written"][0]));
  expect_refused(run + out("x") + "--max-activations lots", "--max-activations");
}

TEST_F(TrainCli, RefusesInOneLine) {
  expect_refused(both() + "--updates 1", "--out DIR is expected");
  expect_refused("--models '" + shared->file("models") + "' " + out("x") + "--updates 1", "--data DIR is expected");
  expect_refused(both() + out("x"), "--epochs, --updates or --minutes");
  expect_refused(both() + out("x") + "--minutes 1", "a cosine needs its length");
  expect_refused(both() + out("x") + "--updates 1 --rank 2 --max-size 1%", "--max-size has no effect");
  expect_refused(both() + out("x") + "--updates 1 --mode full --rank 2", "--rank is for adapters");
  expect_refused(both() + out("x") + "--updates 1 --fresh", "--fresh is for --mode full");
  expect_refused(both() + out("x") + "--updates 1 --mode full --kind lora", "--kind is for adapters");
  expect_refused(both() + out("x") + "--updates 1 --mode full --dtype fp16", "--dtype is for adapters");
  expect_refused(both() + out("x") + "--updates 1 --schedule constant --last-rate 0.1", "--last-rate is for");
  expect_refused(one() + out("x") + "--updates 1 --against labels --features l2", "--features is for");
  expect_refused(both() + out("x") + "--updates 1 --batch 0", "--batch");
  expect_refused(both() + out("x") + "--updates -5", "--updates -5: expected 0 or more");
  expect_refused(both() + out("x") + "--updates 1 --overfit 1000000", "--overfit 1000000");
  expect_refused(
      both() + out("x") + "--updates 1 --network policy --rank 2 --init-adapter '" + folder.file("none") + "'",
      "--rank is for new adapters");
  expect_refused(both() + out("x") + "--updates 1 --rate 0", "--rate 0");
  expect_refused(both() + out("x") + "--updates 1 --precision fp16", "--precision");
  expect_refused(both() + out("x") + "--updates 1 --rank 2 --loss plans=1", "no head \"plans\"");
  expect_refused(both() + out("x") + "--updates 1 --rank 2 --loss plan=-1", "--loss plan");
  expect_refused(both() + out("x") + "--updates 1 --rank 2 --target nothing", "no layer's path matches");
  expect_refused(both() + out("x") + "--updates 1 --max-size 3B", "smallest size that works");
  expect_refused(both() + out("x") + "--updates 1 --rank 2 --init-adapter '" + folder.file("none") + "'",
                 "adapter_config.json");
  expect_refused(
      "--models '" + shared->file("models") + "' --data '" + folder.file("none") + "' " + out("x") + "--updates 1",
      "none");
  // Another model than the data's.
  expect_refused("--supercombo '" + shared->file("one") + "/tiny_driving_supercombo.onnx' --data '" +
                     shared->file("answers") + "' " + out("x") + "--updates 1 --rank 2",
                 "field");
}

}  // namespace train_cli_test
}  // namespace sparkpilot
