// sparkpilot doctor, from outside: this machine, recorded ones, other file trees, and the tests' own driver library.
#include <sys/stat.h>

#include <chrono>

#include "cli_fixture.h"

namespace sparkpilot {
namespace doctor_cli_test {
namespace fs = std::filesystem;

std::string machine(const std::string& name) { return SPARKPILOT_SOURCE_DIR "/tests/machines/" + name + ".json"; }

json parsed(const ProgramResult& result) { return json::parse(result.out, nullptr, false); }

std::set<std::string> findings(const json& report) {
  std::set<std::string> out;
  for (const json& finding : report.at("findings")) out.insert(finding.at("id"));
  return out;
}

class Doctor : public ::testing::Test {
 protected:
  // Makes the loader find the tests' libraries instead of a driver's.
  std::string with_driver(const std::string& mode) {
    const fs::path built = fs::path(SPARKPILOT_PROGRAM).parent_path();
    for (const auto& [name, file] :
         {std::pair{"libnvidia-ml.so.1", "libfake_nvml.so"}, {"libcuda.so.1", "libfake_cuda.so"}}) {
      const fs::path link = folder.path() / name;
      if (!fs::exists(link)) fs::create_symlink(built / file, link);
    }
    return "FAKE_DRIVER=" + mode + " LD_LIBRARY_PATH='" + folder.path().string() + "'";
  }
  TempFolder folder;
};

TEST_F(Doctor, SpeaksOfThisMachine) {
  const ProgramResult result = run_program("doctor");
  EXPECT_TRUE(result.code == 0 || result.code == 4) << result.code << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out.find("processor  "), result.out.find("\nprocessor") + 1);
  EXPECT_NE(result.out.find(" checks: "), std::string::npos) << result.out;
  const json report = parsed(run_program("doctor --json"));
  EXPECT_EQ(report["machine"]["cpu"]["architecture"].get<std::string>().empty(), false);
  EXPECT_TRUE(report["machine"]["hardware_class"].is_string());
  EXPECT_TRUE(report["machine"]["recommended_precision"].is_string());
}

TEST_F(Doctor, ExitCodesSayWhatStands) {
  EXPECT_EQ(run_program("doctor --from '" + machine("device_without_driver") + "'").code, 4) << "fatal";
  EXPECT_EQ(run_program("doctor --from '" + machine("spark_dell") + "'").code, 0) << "slow";
  EXPECT_EQ(run_program("doctor --strict --from '" + machine("spark_dell") + "'").code, 4);
  EXPECT_EQ(run_program("doctor --strict --from '" + machine("no_gpu") + "'").code, 0) << "no GPU is no fault";
}

// By a relative path, too; a folder that is not there is no folder of models without a fault.
TEST_F(Doctor, FoldersOfModelsAndRoutes) {
  fs::create_directory(folder / "models");
  write_text(folder.file("models/driving_vision.onnx"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  for (const std::string& path : {std::string("models"), std::string("./models/"), folder.file("models")}) {
    const ProgramResult found = run_program("doctor --models '" + path + "'", "cd '" + folder.path().string() + "' &&");
    EXPECT_EQ(found.code, 4) << path;
    EXPECT_NE(found.out.find("driving_vision.onnx"), std::string::npos) << found.out;
  }
  for (const char* flag : {"--models", "--data"}) {
    const ProgramResult refused = run_program(std::string("doctor ") + flag + " /nowhere");
    EXPECT_EQ(refused.code, 2) << flag;
    EXPECT_NE(refused.err.find("/nowhere: no such folder"), std::string::npos) << refused.err;
  }
}

TEST_F(Doctor, ACurrentFolderThatIsGone) {
  const std::string gone = "'" + folder.file("gone") + "'";
  const ProgramResult result =
      run_program("doctor --data .", "mkdir " + gone + "; cd " + gone + "; rmdir " + gone + ";");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(result.err.find("internal fault"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(Doctor, ARecordingIsExaminedElsewhere) {
  const std::string copy = (folder / "spark.json").string();
  const ProgramResult first =
      run_program("doctor --json --from '" + machine("spark_dell") + "' --record '" + copy + "'");
  EXPECT_EQ(first.err, "wrote " + copy + ": look at it before you send it\n");
  const ProgramResult second = run_program("doctor --json --from '" + copy + "'");
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(findings(parsed(first)), (std::set<std::string>{"library.missing", "memory.page_cache"}));
  EXPECT_EQ(parsed(first)["machine"]["is_dgx_spark"], true);

  const ProgramResult here = run_program("doctor --quiet --json --record '" + copy + "'");
  EXPECT_EQ(here.err, "");
  const json mine = parsed(here), replayed = parsed(run_program("doctor --json --from '" + copy + "'"));
  EXPECT_EQ(mine["machine"]["cpu"], replayed["machine"]["cpu"]);
  EXPECT_EQ(mine["machine"]["disks"], replayed["machine"]["disks"]);
  EXPECT_EQ(mine["machine"]["gpus"], replayed["machine"]["gpus"]);
}

TEST_F(Doctor, NamesAreTakenOut) {
  const std::string copy = (folder / "me.json").string();
  const std::string me = "USER=zaphod HOME=/home/zaphod ";
  ASSERT_LE(run_program("doctor --quiet --record '" + copy + "'", me).code, 4);
  EXPECT_EQ(read_text(copy).find("zaphod"), std::string::npos);
  const std::string report = run_program("doctor --report", me).out;
  EXPECT_EQ(report.find("zaphod"), std::string::npos) << report;
  EXPECT_NE(report.find("/home/user"), std::string::npos) << report;
  EXPECT_EQ(report.rfind("sparkpilot ", 0), 0U);
}

TEST_F(Doctor, ExaminesAnotherTree) {
  fs::create_directories(folder.path() / "etc");
  fs::create_directories(folder.path() / "proc");
  write_text(folder / "etc/dgx-release", "DGX_NAME=\"DGX Spark\"\nDGX_OTA_VERSION=\"7.2.3\"\n");
  write_text(folder / "proc/meminfo", "MemTotal: 127600748 kB\nMemAvailable: 118566368 kB\nSwapFree: 0 kB\n");
  const json report = parsed(run_program("doctor --json --root '" + folder.path().string() + "'"));
  EXPECT_EQ(report["machine"]["memory"]["total_bytes"], 127600748LL * 1024) << report["machine"]["memory"];
  EXPECT_EQ(report["machine"]["identity"]["dgx_os"], "7.2.3") << report["machine"]["identity"];
  const std::string text = run_program("doctor --root '" + folder.path().string() + "'").out;
  EXPECT_NE(text.find("processor  unknown model\n"), std::string::npos) << "unknown is not 0:\n" << text;
}

TEST_F(Doctor, ADriverThatHangsCostsHalfASecond) {
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = run_program("doctor --json", with_driver("hang_init"));
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took, std::chrono::seconds(30)) << "it must not wait for ever; the exact time is the machine's";
  EXPECT_EQ(result.code, 4);
  EXPECT_TRUE(findings(parsed(result)).contains("driver.hangs")) << result.out;
  const std::string settings = run_program("env", with_driver("hang_init")).out;
  EXPECT_NE(settings.find("device: cpu; libcuda shows no GPU: cuInit did not come back"), std::string::npos)
      << settings;
}

TEST_F(Doctor, ReadsADriver) {
  const json report = parsed(run_program("doctor --json", with_driver("")));
  ASSERT_GE(report["machine"]["gpus"].size(), 1U) << report;
  EXPECT_EQ(report["machine"]["gpus"][0]["name"], "NVIDIA GB10");
  EXPECT_EQ(report["machine"]["is_nvidia_available"], true);
  EXPECT_EQ(report["machine"]["recommended_precision"], "fp16");
  // Of this very program: it holds code for the GB10 where it was built with nvcc.
  const bool has_code = !parsed(run_program("version --json")).at("gpu_code").empty();
  EXPECT_EQ(findings(report).contains("program.kernels"), !has_code) << report;
  EXPECT_EQ(report["machine"]["best_gpu"], 0);
  EXPECT_FALSE(report.contains("best_gpu")) << "one number, which is a place in machine.gpus";
  const json lost = parsed(run_program("doctor --json", with_driver("lost")));
  EXPECT_TRUE(findings(lost).contains("gpu.lost"));
}

TEST_F(Doctor, VerifyComparesWithTheProcessor) {
  const ProgramResult right = run_program("doctor --verify --json", with_driver(""));
  const json verified = parsed(right)["verified"];
  ASSERT_EQ(verified["devices"].size(), 1U) << right.out;
  EXPECT_EQ(verified["devices"][0]["right"], true);
  EXPECT_EQ(verified["devices"][0]["wrong"], 0);
  const ProgramResult wrong = run_program("doctor --verify", with_driver("wrong"));
  EXPECT_EQ(wrong.code, 4);
  EXPECT_NE(wrong.out.find("value 65536 is"), std::string::npos) << wrong.out;
  EXPECT_EQ(verified["outcome"], "right");
  EXPECT_EQ(parsed(run_program("doctor --verify --json", with_driver("wrong")))["verified"]["outcome"], "wrong");
}

TEST_F(Doctor, SaysWhereNothingWasVerified) {
  for (const std::string work : {"--verify", "--load 1"}) {
    const ProgramResult text = run_program("doctor --quiet " + work, with_driver("no_device"));
    EXPECT_EQ(text.code, 4) << work;
    EXPECT_NE(text.out.find("nothing was verified: the NVIDIA driver has no GPU"), std::string::npos) << text.out;
    EXPECT_EQ(text.out.find("no GPU was kept busy") != std::string::npos, work == "--load 1") << text.out;
    const ProgramResult json_text = run_program("doctor --quiet --json " + work, with_driver("no_device"));
    EXPECT_EQ(json_text.code, 4) << work;
    const json verified = parsed(json_text)["verified"];
    EXPECT_EQ(verified, json::parse(R"({"outcome": "nothing_verified", "problem": "the NVIDIA driver has no GPU",
                                        "devices": []})"));
  }
  EXPECT_FALSE(parsed(run_program("doctor --json", with_driver("no_device"))).contains("verified"));
}

TEST_F(Doctor, LoadAsksTheSensorsMeanwhile) {
  const ProgramResult result = run_program("doctor --load 2 -v", with_driver(""));
  EXPECT_EQ(result.err, "keeping every GPU there is busy for 2 s, and reading a disk\n");
  // The driver reports 3 %, so no sample shows a busy GPU.
  EXPECT_NE(result.out.find("the GPU is not busy"), std::string::npos) << result.out;
}

TEST_F(Doctor, ThePageIsTheTable) {
  EXPECT_EQ(read_text(SPARKPILOT_SOURCE_DIR "/docs/doctor.md"), run_program("doctor --list --markdown").out)
      << "print it anew: build/sparkpilot doctor --list --markdown >docs/doctor.md";
  const json list = parsed(run_program("doctor --list --json"));
  EXPECT_GE(list["checks"].size(), 30U);
}

TEST_F(Doctor, WrongInputIsOneLine) {
  const auto expect_one_line = [](const std::string& arguments, const std::string& words) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  };
  write_text(folder / "no.json", "{");
  write_text(folder / "other.json", R"({"sparkpilot_record": 9})");
  expect_one_line("doctor --from '" + (folder / "none.json").string() + "'", "none.json");
  expect_one_line("doctor --from '" + (folder / "no.json").string() + "'", "not even JSON");
  expect_one_line("doctor --from '" + (folder / "other.json").string() + "'", "version 9");
  expect_one_line("doctor --root '" + (folder / "none").string() + "'", "expected the folder of a file tree");
  expect_one_line("doctor --verify --from '" + machine("spark_dell") + "'", "--verify and --load");
  expect_one_line("doctor --load x", "--load");
  expect_one_line("doctor --record /proc/none/x --from '" + machine("spark_dell") + "'", "/proc/none");
}

TEST_F(Doctor, ARecordingIsNotReplacedByItsOwn) {
  const std::string copy = (folder / "spark.json").string(), before = read_text(machine("spark_dell"));
  write_text(copy, before);
  fs::create_hard_link(copy, folder / "link.json");
  for (const std::string& name : {copy, (folder / "link.json").string()}) {
    const ProgramResult result = run_program("doctor --quiet --from '" + copy + "' --record '" + name + "'");
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find("is read and would be replaced"), std::string::npos) << result.err;
    EXPECT_EQ(read_text(copy), before);
  }
}

}  // namespace doctor_cli_test
}  // namespace sparkpilot
