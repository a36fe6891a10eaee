// The route commands from outside: their output for intact, damaged and missing logs.
#include "route/log/test_log.h"

#include "base/test_assets.h"
#include "cli_fixture.h"

namespace sparkpilot {
namespace route_cli_test {
namespace fs = std::filesystem;

constexpr const char* kLog = "2023-07-27--13-01-19";

// Two segments of a route on disk; the second log is truncated.
class RouteCli : public Cli {
 protected:
  static void SetUpTestSuite() {}
  static void TearDownTestSuite() {}
  void SetUp() override {
    fs::create_directories(folder.file("data"));
    for (const char* segment : {"0", "1"}) {
      const fs::path log = data() / fmt_name(segment) / "rlog.zst";
      fs::create_directories(log.parent_path());
      drive::write_log(log, segment[0] == '0' ? 200 : 20'000);
    }
    const std::string cut = (data() / fmt_name("1") / "rlog.zst").string(), whole = read_text(cut);
    write_text(cut, whole.substr(0, whole.size() / 2));
  }
  fs::path data() const { return folder.path() / "data"; }
  static std::string fmt_name(const std::string& segment) { return std::string(kLog) + "--" + segment; }
  std::string quoted(const std::string& path = "") const { return "'" + folder.file("data" + path) + "'"; }
};

TEST_F(RouteCli, InfoAsJson) {
  const json routes = parsed("route info " + quoted())["routes"];
  ASSERT_EQ(routes.size(), 1u);
  const json& route = routes[0];
  EXPECT_EQ(keys(route), (Keys{"name", "comma2k19", "duration_s", "events", "device", "dongle", "openpilot_version",
                               "git_branch", "git_commit", "car_fingerprint", "car_brand", "wall_time_ns",
                               "calibration", "cameras", "segments", "kinds", "gaps", "gap_count", "notes"}));
  EXPECT_EQ(route["name"], kLog);
  EXPECT_TRUE(route["device"].is_null());
  EXPECT_TRUE(route["calibration"]["first"].is_null());
  EXPECT_EQ(route["kinds"]["carState"]["count"], route["events"]);
  EXPECT_EQ(keys(route["segments"][0]), (Keys{"number", "folder", "log", "rlog", "qlog", "road_video", "wide_video",
                                              "driver_video", "qcamera", "global_pose", "events", "log_bytes",
                                              "first_mono_time_ns", "duration_s", "damaged_events", "damage"}));
  EXPECT_EQ(route["segments"][0]["events"], 200);
  EXPECT_TRUE(route["segments"][0]["damage"].is_null());
  EXPECT_NE(route["segments"][1]["damage"].get<std::string>().find("cut"), std::string::npos);
  EXPECT_EQ(route["notes"], json::parse(R"(["there is no video"])"));
}

TEST_F(RouteCli, InfoAsText) {
  const ProgramResult result = run_program("route info " + quoted());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* word : {"2, 0 to 1", "carState", "there is no video", "segment 1: the zstd stream is cut"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << "\n" << result.out;
  }
}

TEST_F(RouteCli, SecondsAreRoundedBeforeMinutes) {
  fs::create_directories(folder.file("long"));
  drive::write_log(folder.path() / "long" / "rlog.zst", 11'981);  // 119.8 s
  const ProgramResult result = run_program("route info " + folder.file("long"));
  EXPECT_NE(result.out.find("2 min 0 s"), std::string::npos) << result.out << result.err;
}

TEST_F(RouteCli, NamesAreLookedUp) {
  const std::string name = "'a2a0ccea32023010|" + std::string(kLog) + "/0/r'";
  EXPECT_EQ(parsed("route info " + name + " --data " + quoted())["routes"][0]["segments"].size(), 1u);
  EXPECT_EQ(run_program("route info " + name, "LOG_ROOT=" + quoted()).code, 0);
  EXPECT_EQ(run_program("route info " + name, "LOG_ROOT=/none").code, 2);
  expect_usage_error("route info " + name + " --data /none", "not in /none");
  expect_usage_error("route info ci --data " + quoted(), "curl -fL --create-dirs");
  expect_usage_error("route info ../../nowhere", "no such file or folder");
  expect_usage_error("route info " + std::string(kLog) + "/7 --data " + quoted(), "there is no segment 7");
  expect_usage_error("route info " + std::string(kLog) + "/0:1000000000 --data " + quoted(),
                     "a segment's number up to");
}

TEST_F(RouteCli, WhatIsNoLogIsRefused) {
  write_text(folder.file("rlog.bz2"), "<!DOCTYPE html>");
  write_text(folder.file("empty.zst"), "");
  for (const char* command : {"route info ", "route dump carState "}) {
    expect_usage_error(command + ("'" + folder.file("rlog.bz2") + "'"), "a page of HTML or XML");
    expect_usage_error(command + ("'" + folder.file("empty.zst") + "'"), "is empty, expected a log");
  }
  fs::create_directories(folder.file("video"));
  write_text(folder.file("video/qcamera.ts"), "");
  EXPECT_EQ(run_program("route dump carState --quiet '" + folder.file("video") + "'").err,
            "sparkpilot route dump: " + folder.file("video") + ": the route has no log to read\n");
  EXPECT_NE(run_program("route info '" + folder.file("video") + "'").out.find("there is no log"), std::string::npos);
}

TEST_F(RouteCli, DumpAsJsonLines) {
  const ProgramResult result =
      run_program("route dump carState " + quoted("/" + fmt_name("0")) + " --fields vEgo,cruiseState.speed");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 200);
  EXPECT_EQ(result.out.substr(0, result.out.find('\n')),
            R"({"mono_time_ns":1000000000,"valid":true,"carState":{"vEgo":0,"cruiseState.speed":0}})");
  const ProgramResult whole = run_program("route dump carState --json --limit 3 " + quoted("/" + fmt_name("0")));
  EXPECT_EQ(std::count(whole.out.begin(), whole.out.end(), '\n'), 3);
  EXPECT_EQ(json::parse(whole.out.substr(0, whole.out.find('\n')))["carState"]["gearShifter"], "unknown");
}

TEST_F(RouteCli, DumpAsCsv) {
  const ProgramResult result = run_program("route dump carState --csv --limit 2 --fields vEgo " + quoted());
  EXPECT_EQ(result.out, "mono_time_ns,valid,vEgo\n1000000000,true,0\n1010000000,true,0.125\n");
  // A truncated log gives the events that it holds, and is named.
  const ProgramResult cut = run_program("route dump carState --csv " + quoted());
  EXPECT_EQ(cut.code, 0);
  EXPECT_NE(cut.err.find(fmt_name("1") + "/rlog.zst: the zstd stream is cut"), std::string::npos) << cut.err;
  EXPECT_EQ(run_program("route dump carState --quiet --csv " + quoted()).err, "");
}

TEST_F(RouteCli, DumpSaysWhatIsThereInsteadOfTheKind) {
  const ProgramResult none = run_program("route dump modelV2 " + quoted("/" + fmt_name("0")));
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "no event is of the kind modelV2; the route holds carState (200)\n");
  EXPECT_EQ(run_program("route dump modelV2 --quiet " + quoted("/" + fmt_name("0"))).err, "");
}

TEST_F(RouteCli, WhatIsRoundedToZeroHasNoSign) {
  capnp::MallocMessageBuilder message;
  auto rpy = message.initRoot<cereal::Event>().initLiveCalibration().initRpyCalib(3);
  rpy.set(1, -1e-6F);
  rpy.set(2, -0.01F);
  fs::create_directories(folder / "calibrated");
  drive::LogWriter log(folder / "calibrated" / "rlog.zst");
  log.write(message);
  log.commit();
  const ProgramResult info = run_program("route info '" + folder.file("calibrated") + "'");
  EXPECT_NE(info.out.find("roll 0.00, pitch 0.00, yaw -0.57 degrees"), std::string::npos) << info.out;
}

TEST_F(RouteCli, AnUnknownKindListsThoseThatTheRouteHolds) {
  const fs::path log = data() / fmt_name("2") / "qlog.bz2";
  fs::create_directories(log.parent_path());
  {
    drive::LogWriter writer(log);
    for (int i = 0; i < 5; ++i) {
      capnp::MallocMessageBuilder message;
      if (i < 3) message.initRoot<cereal::Event>().initOnroadEvents(1);
      else message.initRoot<cereal::Event>().initProcLog();
      writer.write(message);
    }
    writer.commit();
  }
  expect_usage_error(
      "route dump disengagements " + quoted("/" + fmt_name("2")),
      "no event is of the kind \"disengagements\"; the route holds onroadEvents (3); and without a schema "
      "here procLog (2)");
  write_text(data() / fmt_name("1") / "rlog.zst", "<html>");  // reported only if there is no other log
  expect_usage_error("route dump onroadEvent " + quoted(),
                     "(did you mean onroadEvents?); the route holds carState (200), "
                     "onroadEvents (3)");
  expect_usage_error("route dump nothing " + quoted("/" + fmt_name("1")), "a page of HTML");
  expect_usage_error("route dump nothing /nowhere", "/nowhere");
}

TEST_F(RouteCli, DumpRefusesWhatItCannotPrint) {
  expect_usage_error("route dump carStat " + quoted(), "(did you mean carState?)");
  expect_usage_error("route dump procLog " + quoted(), "procLog: the contents of this kind of event have no schema");
  expect_usage_error("route dump carState --fields vEgo,speed " + quoted(), "carState has no field \"speed\"");
  expect_usage_error("route dump carState --fields vEgo, " + quoted(), "carState: expected the name of a field");
  expect_usage_error("route dump carState --csv --json " + quoted(), "exclude each other");
  expect_usage_error("route dump carState --limit -1 " + quoted(), "--limit");
  expect_usage_error("route dump carState", "route");
}

TEST_F(RouteCli, TheDemoRoute) {
  const fs::path demo = assets_folder() / "route_demo";
  if (!fs::exists(demo)) GTEST_SKIP() << "there is no " << demo.string();
  const json route = parsed("route info '" + demo.string() + "'")["routes"][0];
  EXPECT_EQ(route["events"], 11388);
  EXPECT_EQ(route["kinds"]["modelV2"]["count"], 31);
  EXPECT_EQ(route["calibration"]["last"]["status"], "calibrated");
  const ProgramResult models =
      run_program("route dump modelV2 --csv --fields 'position.x[32]' '" + demo.string() + "'");
  EXPECT_EQ(std::count(models.out.begin(), models.out.end(), '\n'), 32);
}

}  // namespace route_cli_test
}  // namespace sparkpilot
