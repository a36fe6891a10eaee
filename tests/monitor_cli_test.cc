// `sparkpilot monitor` from outside: one reading, recordings, what it refuses, and how it ends.
#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <map>
#include <sstream>
#include <thread>

#include "cli_fixture.h"

namespace sparkpilot {
namespace monitor_cli_test {

std::string machine_file(const std::string& name) {
  return "'" SPARKPILOT_SOURCE_DIR "/tests/machines/" + name + ".json'";
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

using MonitorCli = Cli;

TEST_F(MonitorCli, OnceHere) {
  const json reading = parsed("monitor --once");
  EXPECT_GT(reading["memory"]["total_bytes"], 0);
  EXPECT_GT(reading["memory"]["used_bytes"], 0);
  EXPECT_GE(reading["cpu"]["utilization_percent"], 0);
  EXPECT_GT(reading["interval_s"], 0.4);
  EXPECT_GE(reading["processes"]["list"].size(), 1U);
  const std::string text = run_program("monitor --once").out;
  EXPECT_NE(text.find("\nmemory\n  used "), std::string::npos) << text;
}

TEST_F(MonitorCli, OnceOfARecordedMachine) {
  const json spark = parsed("monitor --once --from " + machine_file("spark_founders_edition"));
  ASSERT_EQ(spark["gpus"].size(), 1U);
  EXPECT_EQ(spark["gpus"][0]["name"], "NVIDIA GB10");
  EXPECT_EQ(spark["gpus"][0]["unified_memory"], true);
  EXPECT_TRUE(spark["gpus"][0]["memory_used_bytes"].is_null());
  EXPECT_TRUE(spark["gpus"][0]["fan_percent"].is_null());
  EXPECT_GT(spark["memory"]["used_bytes"], 0);
  EXPECT_EQ(spark["clusters"].size(), 2U);
  EXPECT_TRUE(spark["clusters"][0]["utilization_percent"].is_null());  // a recorded machine does not change, so it has
                                                                       // no rates
  const json two = parsed("monitor --once --from " + machine_file("pc_two_gpus"));
  ASSERT_EQ(two["gpus"].size(), 2U);
  EXPECT_EQ(two["gpus"][1]["gpu"], "1");
  EXPECT_GT(two["gpus"][0]["memory_total_bytes"], 0);
}

TEST_F(MonitorCli, AReadingOfEveryMachine) {
  for (const auto& file : std::filesystem::directory_iterator(SPARKPILOT_SOURCE_DIR "/tests/machines")) {
    const ProgramResult result = run_program("monitor --once --from '" + file.path().string() + "'");
    EXPECT_EQ(result.code, 0) << file.path() << result.err;
    EXPECT_NE(result.out.find("\nmemory\n"), std::string::npos) << file.path();
  }
}

TEST_F(MonitorCli, WhatTheDoctorRecordsHoldsNoProcesses) {
  const std::string file = (folder / "here.json").string();
  run_program("doctor --quiet --record '" + file + "'");
  const json here = parsed("monitor --once --from '" + file + "'");
  EXPECT_GE(here["cpu"]["load"], 0);
  EXPECT_GT(here["memory"]["used_bytes"], 0);
  EXPECT_GE(here["cpu"]["processors_percent"].size(), 1U);
  const json record = json::parse(read_text(file));
  for (const auto& [path, text] : record["files"].items()) {
    const bool of_process = path.size() > 6 && path.starts_with("/proc/") && std::isdigit(path[6]);
    EXPECT_FALSE(of_process && (path.ends_with("/stat") || path.ends_with("/cmdline"))) << path;
  }
}

TEST_F(MonitorCli, AsksTheDriverOnceForWhatDoesNotChange) {
  const std::filesystem::path built = std::filesystem::path(SPARKPILOT_PROGRAM).parent_path();
  std::filesystem::create_symlink(built / "libfake_nvml.so", folder / "libnvidia-ml.so.1");
  const std::string calls = (folder / "calls").string();
  const ProgramResult result =
      run_program("monitor --json --interval 100ms --duration 300ms",
                  "LD_LIBRARY_PATH='" + folder.path().string() + "' FAKE_DRIVER_CALLS='" + calls + "'");
  EXPECT_EQ(result.code, 0) << result.err;
  std::map<std::string, int> count;
  for (const std::string& call : lines(read_text(calls))) ++count[call];
  EXPECT_EQ(count["nvmlDeviceGetName"], 2) << "GPUs";
  EXPECT_EQ(count["nvmlSystemGetDriverVersion"], 1);
  EXPECT_GE(count["nvmlDeviceGetPowerUsage"], 2 * 3);
  for (const std::string& line : lines(result.out)) {
    const json reading = json::parse(line);
    if (!reading.contains("gpus")) continue;  // the summary line
    EXPECT_EQ(reading["gpus"][1]["name"], "NVIDIA GB10");
  }
}

TEST_F(MonitorCli, JsonLinesAndTheirSummary) {
  const ProgramResult result = run_program("monitor --json --interval 100ms --duration 300ms");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::vector<std::string> documents = lines(result.out);
  ASSERT_GE(documents.size(), 2U);
  double before = 0;
  for (size_t i = 0; i + 1 < documents.size(); ++i) {
    const json reading = json::parse(documents[i]);
    EXPECT_GT(reading["seconds"], before);
    before = reading["seconds"];
    EXPECT_FALSE(reading["interval_s"].is_null());
  }
  const json summary = json::parse(documents.back())["summary"];
  EXPECT_EQ(summary["samples"], documents.size() - 1);
  const json& memory = summary["quantities"]["memory.used_bytes"];
  EXPECT_EQ(keys(memory), (Keys{"mean", "p50", "p99", "max", "samples"}));
  EXPECT_LE(memory["p50"], memory["max"]);
  EXPECT_FALSE(summary["quantities"].contains("memory.total_bytes"));
}

TEST_F(MonitorCli, CsvIsContinuedNotOverwritten) {
  const std::string file = (folder / "a.csv").string(),
                    record = "monitor -q --interval 100ms --duration 200ms --csv '" + file + "'";
  ProgramResult result = run_program(record);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("memory.used_bytes"), std::string::npos);  // the summary line
  const std::vector<std::string> first = lines(read_text(file));
  ASSERT_GE(first.size(), 2U);
  EXPECT_EQ(first[0].rfind("time,seconds,", 0), 0U);
  write_text(file, read_text(file) + "2026-01-01T00:0");  // as after a power cut
  EXPECT_EQ(run_program(record).code, 0);
  const std::vector<std::string> second = lines(read_text(file));
  EXPECT_GT(second.size(), first.size() + 1);
  EXPECT_EQ(second[first.size()], "2026-01-01T00:0");
  for (const std::string& line : second) {
    if (line == "2026-01-01T00:0") continue;
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(first[0].begin(), first[0].end(), ','));
  }
  expect_usage_error(record + " --from " + machine_file("pc_two_gpus"), "other columns");
  EXPECT_EQ(lines(read_text(file)), second);
  write_text(file, "notes\n");
  expect_usage_error(record, "other columns");
  EXPECT_EQ(read_text(file), "notes\n");
  expect_usage_error("monitor --duration 1s --csv '" + (folder / "none/a.csv").string() + "'", "cannot be written");
}

TEST_F(MonitorCli, AFullDiskIsSaid) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ProgramResult result = run_program("monitor -q --duration 1s --csv /dev/full");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("/dev/full: cannot be written: No space"), std::string::npos) << result.err;
  // A part of a row would stay between those of a later run.
  const std::string file = folder.file("a.csv");
  const std::string record = "monitor -q --interval 100ms --csv '" + file + "' --duration ";
  ASSERT_EQ(run_program(record + "200ms").code, 0);
  const std::string blocks = std::to_string(std::filesystem::file_size(file) / 512 + 2);
  const ProgramResult full = run_program(record + "20s", "trap '' XFSZ; ulimit -f " + blocks + ";");
  EXPECT_EQ(full.code, 2);
  EXPECT_NE(full.err.find("cannot be written: File too large"), std::string::npos) << full.err;
  const std::string text = read_text(file);
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text.back(), '\n');
  const std::vector<std::string> rows = lines(text);
  ASSERT_GE(rows.size(), 2U);
  for (const std::string& row : rows) {
    EXPECT_EQ(std::count(row.begin(), row.end(), ','), std::count(rows[0].begin(), rows[0].end(), ',')) << row;
  }
}

TEST_F(MonitorCli, CtrlCEndsARecordingWithItsSummary) {
  // The program replaces the shell, so that the signal reaches it.
  const std::string file = (folder / "a.csv").string(), out = (folder / "out").string();
  const pid_t child = fork();
  if (child == 0) {
    const std::string command =
        "exec '" SPARKPILOT_PROGRAM "' monitor -q --interval 100ms --csv '" + file + "' >'" + out + "'";
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  const auto rows = [&] { return lines(read_text(file)).size(); };
  for (int i = 0; i < 600 && rows() < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GE(rows(), 3U);  // each row is written as soon as it is measured
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NE(read_text(out).find(" readings in "), std::string::npos);
  EXPECT_EQ(read_text(file).back(), '\n');
}

TEST_F(MonitorCli, ServesMetrics) {
  const std::string err = (folder / "err").string(), page = (folder / "page").string();
  const std::string command =
      "'" SPARKPILOT_PROGRAM "' monitor --serve 0 --interval 100ms 2>'" + err + "' & program=$!\n" +
      "for i in $(seq 600); do grep -q metrics '" + err + "' && break; sleep 0.1; done\n" +
      R"(port=$(sed 's/.*127.0.0.1:\([0-9]*\).*/\1/' ')" + err + "')\n" +
      R"(exec 3<>/dev/tcp/127.0.0.1/$port; printf 'GET /metrics HTTP/1.1\r\n\r\n' >&3; cat <&3 >')" + page +
      "'; kill $program; wait $program";
  write_text(folder / "serve.sh", command);
  EXPECT_EQ(std::system(("bash '" + (folder / "serve.sh").string() + "'").c_str()), 0) << read_text(err);
  const std::string text = read_text(page);
  EXPECT_EQ(text.rfind("HTTP/1.1 200 OK\r\n", 0), 0U) << text;
  EXPECT_NE(text.find("\nsparkpilot_memory_total_bytes "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST_F(MonitorCli, RefusesInOneLine) {
  expect_usage_error("monitor", "the view needs a terminal; --once");
  expect_usage_error("monitor --once --duration 1s", "--once is one reading");
  expect_usage_error("monitor --once --serve", "--once is one reading");
  expect_usage_error("monitor --serve 70000", "--serve: expected a port");
  expect_usage_error("monitor --serve 80x", "--serve: expected a port");
  expect_usage_error("monitor --json --interval 5x", "--interval: expected a time such as");
  expect_usage_error("monitor --json --interval 1ms", "--interval: expected 0.1 to 3600 seconds");
  expect_usage_error("monitor --json --interval nan", "--interval: expected");
  expect_usage_error("monitor --duration -4", "--duration: expected");
  expect_usage_error("monitor --once --from /nonexistent", "/nonexistent");
  write_text(folder / "x.json", "{}");
  expect_usage_error("monitor --once --from '" + (folder / "x.json").string() + "'", "sparkpilot doctor --record");
}

}  // namespace monitor_cli_test
}  // namespace sparkpilot
