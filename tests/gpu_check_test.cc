// gpu_check on the emulated GPU: its parts, how it goes on, and how it tells a fault.

#include "gpu_check_fixture.h"

namespace sparkpilot {
namespace gpu_check_test {

class GpuCheckOn : public GpuCheck, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpuCheckOn, EveryPartPasses) {
  const std::string gpu = std::string("EMULATED_GPU=") + GetParam();
  const std::string parts = "--parts words,ops,networks,worlds,faults,nccl,limits,bench ";
  const std::string filter = "--models " SPARKPILOT_SOURCE_DIR
                             "/tests/reference/tinyphysics "
                             "--filter Softmax,sparkpilot::Gemm,tiny_driving_policy_v,torque,other_plant";
  ASSERT_EQ(check(gpu, parts + filter), 0) << said;
  for (const char* name : {"words", "ops", "networks", "worlds", "faults", "nccl", "limits", "bench"}) {
    EXPECT_TRUE(part(name).value("passed", false)) << name;
    EXPECT_EQ(part(name)["failures"], Json::array()) << name;
  }
  const Json file = results();
  EXPECT_EQ(file["emulated"], true);
  EXPECT_EQ(files(), 1);
  EXPECT_GT(file["parts"]["ops"]["figures"]["ops"].size(), 2u);
  const Json& network = file["parts"]["networks"]["figures"]["networks"][0];
  ASSERT_EQ(network["precisions"].size(), 4u);
  for (const Json& precision : network["precisions"]) {
    EXPECT_EQ(precision["nodes_on_cpu"], Json::array());
    EXPECT_GT(precision["launches"], 5);
    EXPECT_EQ(precision["copies_to_gpu"] > 0, GetParam() != std::string("gb10"));
  }
  const Json& variants = file["parts"]["bench"]["figures"]["networks"][0]["variants"];
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_GT(variants[0]["gpu"]["compute_ms"]["p50"], 0);
  EXPECT_GT(variants[0]["slowest_nodes"].size(), 5u);
  EXPECT_LE(variants[3]["min_ms"], variants[3]["max_ms"]);
  const Json& nccl = file["parts"]["nccl"]["figures"];
  EXPECT_EQ(nccl["version"], "2.28.9");
  EXPECT_EQ(nccl["means"].size(), 3u);
  const Json& kinds = file["parts"]["worlds"]["figures"]["kinds"];
  ASSERT_EQ(kinds.size(), 5u);
  EXPECT_EQ(kinds[2]["kind"], "torque saturating");
  EXPECT_EQ(kinds[2]["different"], 0);
  EXPECT_EQ(kinds[3]["kind"], "torque from outside");
  EXPECT_EQ(kinds[3]["different"], 0);
  EXPECT_GT(kinds[2]["gpu_steps_per_s"], 0);
  EXPECT_EQ(kinds[4]["kind"], "other_plant.onnx pid");
  EXPECT_GT(kinds[4]["gpu_steps_per_s"], 0);
  const Json& limits = file["parts"]["limits"]["figures"];
  EXPECT_GT(limits["empty_run_us"], 0);
  EXPECT_EQ(limits["to_gpu_bytes_per_second"] > 0, GetParam() != std::string("gb10"));

  // What is done is not repeated, and changes nothing.
  const std::string before = text_of(out / "gpu_check.json");
  ASSERT_EQ(check(gpu, "--parts words,ops,bench " + filter), 0);
  EXPECT_NE(said.find("words     passed before"), std::string::npos) << said;
  EXPECT_EQ(text_of(out / "gpu_check.json"), before);
  ASSERT_EQ(check(gpu, "--parts words --again"), 0);
  EXPECT_NE(said.find("words     passed in"), std::string::npos) << said;

  ASSERT_EQ(shell(gpu, GPU_CHECK " table " + (out / "gpu_check.json").string()), 0);
  for (const char* line : {"**NVIDIA ", "**Emulated: its times mean nothing.**", "| words | passed; with --tiny |",
                           "| run of one empty kernel | ", "| tiny_driving_policy_v0.10.0 | GPU | fp16 | ",
                           "| torque saturating | 64 | ", "| other_plant.onnx pid | 6 | "})
    EXPECT_NE(said.find(line), std::string::npos) << line << "\n" << said;
}

INSTANTIATE_TEST_SUITE_P(Gpus, GpuCheckOn, ::testing::Values("gb10", "h100"),
                         [](const auto& gpu) { return std::string(gpu.param); });

// The whole part takes longer than a call may, no item does.
TEST_F(GpuCheck, APartWhoseTimeIsOverGoesOnInTheNextCall) {
  int calls = 0, code = 4;
  Json items;
  for (; code == 4; ++calls) {
    code = check("",
                 "--parts ops,words --minutes 0.01 --filter "
                 "Softmax,Reduce,Max,Min,Add,Mul,Sub,Div,Exp,Log,Cast,Less,Greater,Equal,Sqrt,Pow,Sin,Cos,Tan,Abs,Neg,"
                 "Sigmoid,Relu,Where");
    ASSERT_TRUE(code == 0 || code == 4) << said;
    EXPECT_EQ(table(), 0) << said;
    if (calls == 0) items = part("ops")["go_on"]["items"];
    ASSERT_LT(calls, 100);
  }
  EXPECT_GT(calls, 1);
  const Json ops = part("ops")["figures"]["ops"];
  ASSERT_EQ(ops.size(), items.size());
  for (size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(ops[i]["op"], items[i]);
}

// As where it takes longer than a call may.
TEST_F(GpuCheck, AnItemAtWhichTwoCallsEndedHasFailed) {
  const std::string words = "--parts ops --minutes 600 --filter Softmax";
  ASSERT_EQ(check("", words), 0) << said;
  Json file = results();
  Json& ops = file["parts"]["ops"];
  const Json names{"Softmax", "LogSoftmax"};
  ops = {{"passed", false},
         {"seconds", 1},
         {"asked", ops["asked"]},
         {"failures", Json::array()},
         {"go_on",
          {{"next", 0}, {"stopped", 2}, {"items", names}, {"failures", Json::array()}, {"figures", Json::object()}}}};
  write(file.dump());
  EXPECT_EQ(check("", words), 1) << said;
  EXPECT_EQ(part("ops")["failures"], (Json{"Softmax: the time of 2 calls was over before it was done"}));
  ASSERT_EQ(part("ops")["figures"]["ops"].size(), 1u);
  EXPECT_EQ(part("ops")["figures"]["ops"][0]["op"], "LogSoftmax");
}

TEST_F(GpuCheck, NcclThatFailsOrIsNotThereIsNamed) {
  EXPECT_EQ(check("EMULATED_NCCL_FAIL=ncclAllReduce:2:3", "--parts nccl"), 1);
  EXPECT_NE(part("nccl")["failures"].dump().find("ncclAllReduce: internal error"), std::string::npos) << said;
  EXPECT_EQ(check("EMULATED_NCCL_FAIL=ncclCommInitRankConfig:1:1", "--parts nccl --again"), 1);
  EXPECT_NE(part("nccl")["failures"].dump().find("ncclCommInitRankConfig: unhandled cuda"), std::string::npos) << said;
  EXPECT_EQ(check("EMULATED_NCCL_VERSION=21304", "--parts nccl --again"), 0);
  EXPECT_NE(said.find("not run: libnccl.so.2 is NCCL 2.13.4"), std::string::npos) << said;
  EXPECT_EQ(results()["parts"].contains("nccl"), false);
}

TEST_F(GpuCheck, AFailingPartIsNamedAndTheOthersRun) {
  EXPECT_EQ(check("EMULATED_CUDA_WRONG=word_votes", "--parts words,ops --filter Softmax"), 1);
  EXPECT_NE(said.find("words     FAILED in"), std::string::npos) << said;
  EXPECT_NE(said.find("votes: element 0: expected "), std::string::npos) << said;
  EXPECT_EQ(part("words")["passed"], false);
  EXPECT_EQ(part("words")["failures"].size(), 1u);
  EXPECT_EQ(part("ops")["passed"], true);
  EXPECT_EQ(check("", "--parts words,ops --filter Softmax"), 1) << "a part that failed before is not forgotten";
  EXPECT_EQ(check("", "--parts words --again"), 0) << said;
}

// Every process loses its GPU at its third wait, and a new one goes on with the next op.
TEST_F(GpuCheck, AfterALostGpuANewProcessGoesOn) {
  EXPECT_EQ(check("EMULATED_CUDA_FAIL=cuStreamSynchronize:3:700", "--parts ops --again --filter Softmax,Gelu,Relu"), 1);
  const Json ops = part("ops");
  EXPECT_GT(ops["figures"]["ops"].size(), 3u);
  int lost = 0;
  for (const Json& line : ops["failures"])
    lost += line.get<std::string>().find("a new process went on") != std::string::npos;
  EXPECT_EQ(static_cast<size_t>(lost), ops["figures"]["ops"].size()) << ops["failures"].dump(1);
}

// A signal in the first half second, or later, in the middle of an op.
TEST_F(GpuCheck, ASignalLeavesAFileWithWhichTheNextCallGoesOn) {
  const std::string run = GPU_CHECK " --tiny --parts words,ops,limits --filter Reduce,Softmax --out " + out.string();
  const fs::path temporary = scratch_.path() / "tmp";
  fs::create_directory(temporary);
  for (const auto& [signal, code] : {std::pair("INT", 130), {"TERM", 143}, {"HUP", 129}}) {
    for (const char* seconds : {"0.1", "0.3", "0.6", "1", "1.6"}) {
      const std::string which = std::string(signal) + " after " + seconds + " s";
      const int ended =
          shell("TMPDIR=" + temporary.string(), "sh -c 'env --default-signal=INT,TERM,HUP " + run + " & sleep " +
                                                    seconds + "; kill -" + signal + " $! || exit 0; wait $!'");
      EXPECT_TRUE(ended == code || ended == 0) << which << ": " << ended << "\n" << said;
      // On a busy machine two signals may meet the same item, which has failed then.
      if (said.find("the time of 2 calls was over") != std::string::npos) {
        fs::remove_all(out);
        continue;
      }
      EXPECT_EQ(said.find("FAILED"), std::string::npos) << which << "\n" << said;
      if (!fs::exists(out / "gpu_check.json")) continue;
      EXPECT_EQ(table(), 0) << which << "\n" << said;
      EXPECT_EQ(text_of(out / "gpu_check.json").find("ended the program"), std::string::npos) << which;
    }
  }
  ASSERT_EQ(check("", "--parts words,ops,limits --filter Reduce,Softmax"), 0) << said;
  EXPECT_EQ(files(), 1) << "nothing is left beside the file";
  EXPECT_TRUE(fs::is_empty(temporary));
}

// The process that computes gets a segmentation fault; another one goes on behind the op.
TEST_F(GpuCheck, AfterAFaultAnotherProcessGoesOn) {
  const std::string run = GPU_CHECK " --tiny --parts ops --filter Reduce,Softmax --out " + out.string();
  ASSERT_EQ(shell("", "bash -c '" + run + " & until grep -q next " + out.string() +
                          "/gpu_check.json 2>/dev/null; do sleep 0.01; done; kill -SEGV "
                          "$(cat /proc/$!/task/$!/children); wait $!'"),
            1)
      << said;
  EXPECT_NE(said.find("ended by signal 11 (Segmentation fault); a new process goes on"), std::string::npos) << said;
  const Json ops = part("ops");
  ASSERT_EQ(ops["failures"].size(), 1u);
  EXPECT_NE(ops["failures"][0].get<std::string>().find(": ended the program"), std::string::npos);
  EXPECT_GT(ops["figures"]["ops"].size(), 3u);
}

TEST_F(GpuCheck, AnItemThatTakesTooLongHasFailed) {
  EXPECT_EQ(check("", "--parts networks --filter tiny_driving_supercombo --item-minutes 0.01"), 1) << said;
  EXPECT_NE(said.find("ended because one item took too long (--item-minutes); a new process goes on"),
            std::string::npos)
      << said;
  EXPECT_EQ(part("networks")["failures"],
            Json::array({"tiny_driving_supercombo: ended the program, or took too long"}));
}

// Without items there is nothing behind which it could go on.
TEST_F(GpuCheck, APartThatEndedTheProgramHasFailed) {
  ASSERT_EQ(check("", "--parts words"), 0) << said;
  Json file = results();
  Json& words = file["parts"]["words"];
  words["passed"] = false;
  words["failures"] = {"ended the program"};
  words.erase("figures");
  words["go_on"] = {{"failures", {"ended the program"}}};
  write(file.dump());
  EXPECT_EQ(check("", "--parts words"), 1);
  EXPECT_NE(said.find("words     FAILED in"), std::string::npos) << said;
  EXPECT_NE(said.find(": ended the program"), std::string::npos) << said;
  EXPECT_EQ(check("", "--parts words --again"), 0) << said;
}

TEST_F(GpuCheck, WhatWasAskedForDecidesWhatIsDone) {
  ASSERT_EQ(check("", "--parts ops,words --filter Softmax"), 0) << said;
  const size_t before = part("ops")["figures"]["ops"].size();
  ASSERT_EQ(check("", "--parts ops,words --filter Softmax,Gelu"), 0) << said;
  EXPECT_NE(said.find("ops       was run with another --filter, --models or --tiny: begun anew"), std::string::npos);
  EXPECT_NE(said.find("words     passed before"), std::string::npos) << said;
  EXPECT_GT(part("ops")["figures"]["ops"].size(), before);
  EXPECT_EQ(table(), 0);
  EXPECT_NE(said.find("| ops | passed; with --tiny; only names with Softmax,Gelu |"), std::string::npos) << said;
  ASSERT_EQ(check("", "--parts ops --again --filter Sofmax"), 0) << said;
  EXPECT_NE(said.find("ops       not run: nothing has \"Sofmax\" in its name"), std::string::npos) << said;
  EXPECT_FALSE(results()["parts"].contains("ops"));
}

TEST_F(GpuCheck, RefusesWhatItCannotUse) {
  EXPECT_EQ(check("EMULATED_GPU=none", "--parts words"), 3) << said;
  EXPECT_FALSE(fs::exists(out)) << "made for nothing";
  EXPECT_EQ(check("", "--parts words,wheels"), 2);
  EXPECT_NE(said.find("no part is named wheels: expected words, ops"), std::string::npos) << said;
  EXPECT_EQ(check("", "--parts networks --models /dev/null"), 2);
  EXPECT_NE(said.find("--models: /dev/null is no folder"), std::string::npos) << said;
  EXPECT_EQ(check("", "--minutes 900"), 2);
  ASSERT_EQ(check("", "--parts words"), 0) << said;
  EXPECT_EQ(check("EMULATED_GPU=h100", "--parts words"), 2);
  EXPECT_NE(said.find("is of another GPU; choose another folder with --out"), std::string::npos) << said;
  // Another program's file is left alone.
  for (const char* text : {"[]", "3", "{}", R"({"format": "sparkpilot bench", "gpu": 3})"}) {
    write(text);
    EXPECT_EQ(check("", "--parts words"), 2) << said;
    EXPECT_NE(said.find("gpu_check.json: was not written by gpu_check"), std::string::npos) << said;
    EXPECT_EQ(table(), 2) << said;
    EXPECT_EQ(text_of(out / "gpu_check.json"), text);
  }
  EXPECT_EQ(shell("", GPU_CHECK " --tiny --parts words --out /dev/null/out"), 2);
  EXPECT_NE(said.find("/dev/null/out: cannot make this folder: Not a directory"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
}

TEST_F(GpuCheck, ADamagedFileIsKept) {
  ASSERT_EQ(check("", "--parts words"), 0) << said;
  const std::string whole = text_of(out / "gpu_check.json");
  Json half_true = results();
  half_true["parts"]["words"]["passed"] = "yes";
  const std::pair<std::string, std::string> damaged[] = {
      {"", "is no whole JSON document"},
      {whole.substr(0, whole.size() / 2), "is no whole JSON document"},
      {half_true.dump(), "parts.words.passed: expected true or false, got \"yes\""}};
  int number = 0;
  for (const auto& [text, reason] : damaged) {
    write(text);
    ASSERT_EQ(check("", "--parts words"), 0) << said;
    const fs::path kept = out / ("gpu_check.damaged-" + std::to_string(++number) + ".json");
    const std::string line = (out / "gpu_check.json").string() + ": " + reason + "; it is kept as " + kept.string() +
                             ", and a new one is begun\n";
    EXPECT_NE(said.find(line), std::string::npos) << line << said;
    EXPECT_EQ(text_of(kept), text);
    EXPECT_NE(said.find("words     passed in"), std::string::npos) << said;
    EXPECT_EQ(table(), 0) << said;
  }
}

TEST_F(GpuCheck, OneCallAtATimeWritesIntoAFolder) {
  const std::string run = GPU_CHECK " --tiny --parts ops --filter Softmax --out " + out.string();
  ASSERT_EQ(shell("", "bash -c '" + run + " >/dev/null & until [ -e " + out.string() +
                          "/.sparkpilot.lock ]; do sleep 0.01; done; " + run +
                          "; second=$?; echo first $!; wait $! || exit 1; exit $second'"),
            2)
      << said;
  const std::string first = said.substr(said.find("first ") + 6);
  EXPECT_NE(said.find("process " + first.substr(0, first.find('\n')) + " is writing into this folder"),
            std::string::npos)
      << said;
  EXPECT_EQ(part("ops")["passed"], true);
}

// A file that may not be as long stands for a full disk: the file from before stays, and one line says why.
TEST_F(GpuCheck, AFullDiskIsOneLine) {
  ASSERT_EQ(check("", "--parts words"), 0) << said;
  const std::string before = text_of(out / "gpu_check.json");
  EXPECT_EQ(
      shell("", "bash -c 'ulimit -f 1; " GPU_CHECK " --tiny --parts ops --filter Softmax --out " + out.string() + "'"),
      2)
      << said;
  EXPECT_EQ(said, "gpu_check: " + (out / "gpu_check.json").string() + ": cannot write: File too large\n");
  EXPECT_EQ(text_of(out / "gpu_check.json"), before);
  // In the middle of a part, which has not failed by that.
  EXPECT_EQ(shell("", "bash -c 'ulimit -f 3; " GPU_CHECK " --tiny --parts ops --filter Reduce,Softmax --out " +
                          out.string() + "'"),
            2)
      << said;
  EXPECT_EQ(said, "gpu_check: " + (out / "gpu_check.json").string() + ": cannot write: File too large\n");
  EXPECT_EQ(table(), 0) << said;
  EXPECT_TRUE(part("ops").contains("go_on"));
  EXPECT_EQ(files(), 1);
}

TEST_F(GpuCheck, TheScriptPassesItsArgumentsOn) {
  const std::string script = SPARKPILOT_SOURCE_DIR "/scripts/gpu_check.sh --tiny --rounds 1 --out " + out.string();
  if (fs::path(GPU_CHECK).parent_path() != fs::path(SPARKPILOT_SOURCE_DIR) / "build")
    GTEST_SKIP() << "the script takes the program of build/";
  ASSERT_EQ(shell("", script + " --parts words,ops,limits --filter Softmax"), 0) << said;
  EXPECT_EQ(part("limits")["passed"], true);
  EXPECT_GT(results()["commit"].get<std::string>().size(), 6u);
  EXPECT_EQ(shell("EMULATED_CUDA_WRONG=word_votes", script + " --again --parts words,limits"), 1);
  EXPECT_NE(said.find("words     FAILED"), std::string::npos) << said;
  EXPECT_NE(said.find("limits    passed"), std::string::npos) << said;
  EXPECT_EQ(shell("EMULATED_GPU=none", script + " --parts words"), 3) << said;
  EXPECT_EQ(shell("", SPARKPILOT_SOURCE_DIR "/scripts/gpu_check.sh table " + (out / "gpu_check.json").string()), 0);
}

// Programs in the sanitizer's place: one runs what it is given, one finds something, one cannot start.
TEST_F(GpuCheck, TheSanitizerRunsOnce) {
  const fs::path folder = scratch_.path() / "bin";
  fs::create_directory(folder);
  const auto install = [&](const std::string& text) {
    std::ofstream(folder / "compute-sanitizer") << "#!/bin/bash\n" + text;
    fs::permissions(folder / "compute-sanitizer", fs::perms::owner_all);
  };
  const std::string path = "PATH=" + folder.string() + ":/usr/bin:/bin", parts = "--parts sanitizer";
  install("echo \"tool $2, $4, $6\"; shift 6; exec \"${@:1:$#-1}\" Softmax --tiny\n");
  ASSERT_EQ(check(path, parts), 0) << said;
  const Json tools = part("sanitizer")["figures"]["tools"];
  ASSERT_EQ(tools.size(), 3u);
  EXPECT_EQ(tools[0]["tool"], "memcheck");
  EXPECT_EQ(tools[2]["tool"], "synccheck");
  for (const Json& tool : tools) {
    const std::string log = tool["log"];
    EXPECT_NE(log.find("tool " + tool["tool"].get<std::string>() + ", 9, 60\n"), std::string::npos) << log;
    EXPECT_NE(log.find("ops       passed in "), std::string::npos) << log;
    EXPECT_EQ(tool["ended"], "exit code 0");
  }
  install("exit 1\n");
  ASSERT_EQ(check(path, parts), 0) << said;
  EXPECT_NE(said.find("sanitizer passed before"), std::string::npos) << said;

  install("if [ \"$2\" = racecheck ]; then echo '1 hazard'; exit 9; fi\n");
  EXPECT_EQ(check(path, parts + " --again"), 1) << said;
  EXPECT_EQ(part("sanitizer")["failures"],
            Json::array({"racecheck: racecheck has findings: the log is in the results"}));
  EXPECT_EQ(part("sanitizer")["figures"]["tools"][1]["log"], "1 hazard\n");
  install("echo 'Error: no device' >&2; exit 1\n");
  EXPECT_EQ(check(path, parts + " --again"), 1) << said;
  EXPECT_NE(said.find("sanitizer FAILED in"), std::string::npos) << said;
  EXPECT_NE(said.find("memcheck: exit code 1: Error: no device"), std::string::npos) << said;
  fs::remove_all(folder);
  if (!fs::exists("/usr/local/cuda/bin/compute-sanitizer")) {
    EXPECT_EQ(check(path, parts + " --again"), 0) << said;
    EXPECT_NE(said.find("sanitizer not run: compute-sanitizer is not on this machine"), std::string::npos) << said;
  }
}

TEST_F(GpuCheck, ModelsOfAFolderAreTaken) {
  const std::string models = (scratch_.path() / "models").string();
  ASSERT_EQ(shell("", SPARKPILOT_PROGRAM " zoo build tiny_driving_policy --out " + models), 0) << said;
  ASSERT_EQ(check("", "--parts networks --filter .onnx --models " + models), 0) << said;
  const Json networks = part("networks")["figures"]["networks"];
  ASSERT_EQ(networks.size(), 1u);
  EXPECT_EQ(networks[0]["network"], "tiny_driving_policy.onnx");
}

TEST_F(GpuCheck, SoakReadsTheSensors) {
  ASSERT_EQ(check("", "--parts words --soak --soak-minutes 0.05"), 0) << said;
  const Json figures = part("soak")["figures"];
  EXPECT_GE(figures["seconds"], 3.0);
  EXPECT_EQ(figures["pauses"], Json::array());
  ASSERT_EQ(figures["minutes"].size(), 1u);
  EXPECT_GE(figures["minutes"][0]["runs"], 1);
  EXPECT_GE(figures["minutes"][0]["readings"], 1);
  EXPECT_EQ(table(), 0);
  EXPECT_NE(said.find("| soak, seconds | runs | temperature C |"), std::string::npos) << said;
}

// In pieces: what was found before a pause is kept, and the pause is told.
// The driver's own end, after all parts: no item takes too long then, and nothing is begun anew.
TEST_F(GpuCheck, ADriverMayTakeLongToEnd) {
  ASSERT_EQ(check("EMULATED_CUDA_SLOW_EXIT=6", "--parts words --item-minutes 0.07"), 0) << said;
  EXPECT_EQ(said.find("too long"), std::string::npos) << said;
  EXPECT_EQ(said.find("before"), std::string::npos) << said;
}

TEST_F(GpuCheck, SoakGoesOnAfterAPause) {
  const std::string soak = "--parts soak --soak-minutes 0.12";
  ASSERT_EQ(check("", soak + " --minutes 0.08"), 4) << said;
  EXPECT_NE(said.find("soak      unfinished after"), std::string::npos) << said;
  const Json before = part("soak")["go_on"]["figures"];
  ASSERT_EQ(before["minutes"].size(), 1u) << said << before;
  ASSERT_EQ(table(), 0) << said;
  EXPECT_NE(said.find("| soak, seconds |"), std::string::npos) << said;  // what there is so far
  ASSERT_EQ(check("", soak), 0) << said;
  const Json after = part("soak")["figures"];
  ASSERT_EQ(after["minutes"].size(), 2u) << said << after;
  EXPECT_EQ(after["minutes"][0], before["minutes"][0]);
  EXPECT_EQ(after["pauses"], Json::array({before["seconds"]}));
  EXPECT_GE(after["seconds"], 7.2);
}

TEST_F(GpuCheck, ThePackageNeedsNothingBesidesTheCLibrary) {
  const std::string folder = scratch_.path().string();
  if (fs::path(GPU_CHECK).parent_path() != fs::path(SPARKPILOT_SOURCE_DIR) / "build")
    GTEST_SKIP() << "packages are made of build/";
  ASSERT_EQ(shell("", SPARKPILOT_SOURCE_DIR "/scripts/pack_gpu_check.sh " + folder), 0) << said;
  EXPECT_LT(fs::file_size(scratch_.path() / "gpu_check.tar.gz"), 40u << 20);
  fs::create_directory(scratch_.path() / "there");
  ASSERT_EQ(shell("", "tar -C " + folder + "/there -xzf " + folder + "/gpu_check.tar.gz"), 0) << said;
  // Those of rooms that it takes a part of (GPU_CHECK in CMakeLists.txt).
  for (const auto& library : fs::directory_iterator(scratch_.path() / "there/gpu_check/lib")) {
    for (const char* unwanted : {"libcairo", "libcapnp", "libzip", "libav"})
      EXPECT_NE(library.path().filename().string().rfind(unwanted, 0), 0u) << library.path();
  }
  const std::string script = "env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH=" EMULATED_CUDA " " + folder +
                             "/there/gpu_check/gpu_check.sh --tiny --parts words,limits --out " + out.string();
  ASSERT_EQ(shell("", script), 0) << said;
  EXPECT_EQ(part("words")["passed"], true);
  const std::string commit = text_of(scratch_.path() / "there/gpu_check/commit");
  EXPECT_EQ(results()["commit"].get<std::string>() + "\n", commit);
}

TEST_F(GpuCheck, EnginesThatAreNotThereAreNamed) {
  ASSERT_EQ(check("PATH=/usr/bin:/bin",
                  "--parts peers --filter tiny_driving_policy_v --engines trtexec,pytorch:cuda "
                  "--python /none/python3"),
            0)
      << said;
  const Json network = part("peers")["figures"]["networks"][0];
  ASSERT_EQ(network["engines"].size(), 2u);
  EXPECT_GT(network["ours"]["p50_ms"], 0);
  for (const Json& engine : network["engines"]) EXPECT_NE(engine["not_run"].get<std::string>(), "") << engine;
  EXPECT_EQ(table(), 0) << said;
}

}  // namespace gpu_check_test
}  // namespace sparkpilot
