#include "route/log/route.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "route/log/test_log.h"

namespace sparkpilot::drive {
namespace route_test {
namespace fs = std::filesystem;

constexpr const char* kDongle = "a2a0ccea32023010";
constexpr const char* kOld = "2023-07-27--13-01-19";
constexpr const char* kNew = "0000010e--5b26bc3be7";

std::vector<int> numbers(const Route& route) {
  std::vector<int> list;
  for (const Segment& segment : route.segments) list.push_back(segment.number);
  return list;
}

std::string notes(const Route& route) {
  std::string text;
  for (const std::string& note : route.notes) text += note + "\n";
  return text;
}

std::string refusal(const std::string& name, const fs::path& data = {}) {
  try {
    find_route(name, {data});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "";
}

class RouteTest : public testing::Test {
 protected:
  void touch(const std::string& file) const { write_text(folder / file, ""); }
  Route find(const std::string& name) const { return find_route(name, {folder.path()}); }
  TempFolder folder;
};

TEST(RouteName, Spellings) {
  for (const char* text : {"a2a0ccea32023010|2023-07-27--13-01-19", "a2a0ccea32023010/2023-07-27--13-01-19",
                           "a2a0ccea32023010_2023-07-27--13-01-19", "a2a0ccea32023010/2023-07-27--13-01-19/"}) {
    const auto name = parse_route_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(name->str(), "a2a0ccea32023010|2023-07-27--13-01-19");
    EXPECT_FALSE(name->start || name->slice);
  }
  EXPECT_EQ(parse_route_name(kNew)->str(), kNew);
  EXPECT_EQ(parse_route_name("a2a0ccea32023010/0000010e--5b26bc3be7--12")->start, 12);
  const auto sliced = parse_route_name("a2a0ccea32023010|2023-07-27--13-01-19/2:-1:3/q");
  EXPECT_EQ(sliced->start, 2);
  EXPECT_EQ(sliced->stop, -1);
  EXPECT_EQ(sliced->step, 3);
  EXPECT_TRUE(sliced->slice);
  EXPECT_EQ(sliced->logs, LogKind::decimated);
  EXPECT_EQ(parse_route_name("2023-07-27--13-01-19/r")->logs, LogKind::full);
  EXPECT_EQ(parse_route_name("2023-07-27--13-01-19/a")->logs, LogKind::automatic);
  for (const char* text : {"", "ci", "x", "2023-07-27--13-01-1", "2023-07-27--13-01-19x", "2023-07-27--13-01-195",
                           "a2a0ccea32023010|", "a2a0ccea3202301|2023-07-27--13-01-19", "../2023-07-27--13-01-19",
                           "2023-07-27--13-01-19/..", "2023-07-27--13-01-19/0/../1", "2023-07-27--13-01-19/x"}) {
    EXPECT_FALSE(parse_route_name(text)) << text;
  }
  for (const char* range :
       {"1000000000", "99999999999999999999", "0:1000000000", "1:2:3:4", "::0", "::-1", "1-2", "--"}) {
    EXPECT_THROW(parse_route_name(std::string(kOld) + "/" + range), Error) << range;
  }
}

TEST(RouteName, CiSegmentsAreNames) {
  for (const std::string_view segment : ci_segments()) {
    const auto name = parse_route_name(segment);
    ASSERT_TRUE(name) << segment;
    EXPECT_TRUE(name->start && !name->slice && !name->dongle.empty());
  }
}

TEST_F(RouteTest, TheDevicesFolders) {
  for (const char* log : {kOld, kNew}) {
    for (int n = 0; n < 3; ++n) {
      const std::string segment = fmt::format("{}/{}--{}/", log, log, n);
      touch(segment + "rlog.zst");
      touch(segment + "qlog.zst");
      touch(segment + "fcamera.hevc");
    }
    for (const Route& route : {find(folder / log), find_route(log, {folder / log})}) {
      EXPECT_EQ(route.name, log);
      EXPECT_EQ(numbers(route), (std::vector<int>{0, 1, 2}));
      EXPECT_EQ(route.segments[1].rlog, folder / fmt::format("{}/{}--1/rlog.zst", log, log));
      EXPECT_EQ(route.segments[1].road_video.filename(), "fcamera.hevc");
      EXPECT_TRUE(route.segments[1].wide_video.empty());
      EXPECT_EQ(notes(route), "");
      EXPECT_FALSE(route.comma2k19);
    }
  }
  const Route one = find(folder / fmt::format("{}/{}--2", kOld, kOld));
  EXPECT_EQ(one.name, kOld);
  EXPECT_EQ(numbers(one), std::vector<int>{2});
  const Route file = find(folder / fmt::format("{}/{}--2/qlog.zst", kOld, kOld));
  EXPECT_EQ(file.name, kOld);
  EXPECT_EQ(numbers(file), std::vector<int>{2});
  EXPECT_TRUE(file.segments[0].rlog.empty());
  EXPECT_EQ(file.log(file.segments[0]).filename(), "qlog.zst");
}

TEST_F(RouteTest, EveryLayoutIsFoundByName) {
  const std::string name = fmt::format("{}|{}", kDongle, kOld);
  for (const std::string& file :
       {fmt::format("{}--4/rlog.bz2", kOld), fmt::format("{}|{}--4/rlog.bz2", kDongle, kOld),
        fmt::format("{}_{}--4/rlog.bz2", kDongle, kOld), fmt::format("{}|{}/4/rlog.bz2", kDongle, kOld),
        fmt::format("{}_{}/4/rlog.bz2", kDongle, kOld), fmt::format("{}/{}/4/rlog.bz2", kDongle, kOld),
        fmt::format("{}/4/rlog.bz2", kOld), fmt::format("{}|{}--4--rlog.bz2", kDongle, kOld),
        fmt::format("{}_{}--4--rlog.bz2", kDongle, kOld)}) {
    const TempFolder data;
    write_text(data / file, "");
    write_text(data / "0123456789abcdef|2023-07-27--13-01-19--4/rlog.bz2", "");  // another device's
    write_text(data / "unrelated.txt", "");
    const Route route = find_route(name, {data.path()});
    EXPECT_EQ(numbers(route), std::vector<int>{4}) << file;
    EXPECT_EQ(route.segments[0].rlog, data / file) << file;
    EXPECT_EQ(find_route(name + "--4", {data.path()}).segments.size(), 1u) << file;
    EXPECT_NE(refusal(name + "/5", data.path()).find("there is no segment 5; it has segment 4"), std::string::npos);
  }
}

TEST_F(RouteTest, FlatFilesBelongTogether) {
  touch("a2a0ccea32023010|2023-07-27--13-01-19--0--qlog.bz2");
  touch("a2a0ccea32023010_2023-07-27--13-01-19--0--rlog.bz2");
  touch("a2a0ccea32023010_2023-07-27--13-01-19--1--qcamera.ts");
  const Route route = find(folder.path().string());
  EXPECT_EQ(route.name, fmt::format("{}|{}", kDongle, kOld));
  EXPECT_EQ(numbers(route), (std::vector<int>{0, 1}));
  EXPECT_FALSE(route.segments[0].qlog.empty() || route.segments[0].rlog.empty());
  const Route file = find(folder / "a2a0ccea32023010_2023-07-27--13-01-19--1--qcamera.ts");
  EXPECT_EQ(file.name, fmt::format("{}|{}", kDongle, kOld));
  EXPECT_EQ(numbers(file), std::vector<int>{1});
}

TEST_F(RouteTest, Comma2k19) {
  const std::string segment = "Chunk_1/b0c9d2329ad1606b|2018-08-02--08-34-47/40/";
  touch(segment + "raw_log.bz2");
  touch(segment + "video.hevc");
  touch(segment + "global_pose/frame_times");
  touch(segment + "processed_log/CAN/speed/t");
  for (const std::string& path :
       {segment, std::string("Chunk_1/b0c9d2329ad1606b|2018-08-02--08-34-47"), std::string("Chunk_1")}) {
    const Route route = find(folder / path);
    EXPECT_EQ(route.name, "b0c9d2329ad1606b|2018-08-02--08-34-47") << path;
    EXPECT_EQ(numbers(route), std::vector<int>{40});
    EXPECT_TRUE(route.comma2k19);
    EXPECT_EQ(route.segments[0].rlog.filename(), "raw_log.bz2");
    EXPECT_EQ(route.segments[0].road_video.filename(), "video.hevc");
    EXPECT_EQ(route.segments[0].global_pose.filename(), "global_pose");
  }
}

TEST_F(RouteTest, FilesOfAnyNameAndFoldersOfAnyName) {
  touch("mine/rlog");
  touch("mine/qcamera.ts");
  touch("drive.hevc");
  touch("drive.zst");
  EXPECT_EQ(find(folder / "mine").name, "mine");
  EXPECT_EQ(find(folder / "mine/").name, "mine");
  EXPECT_EQ(find(folder / "drive.hevc").segments[0].road_video, folder / "drive.hevc");
  EXPECT_EQ(find(folder / "drive.zst").segments[0].rlog, folder / "drive.zst");
  touch("made/my_route--0/rlog.zst");
  touch("made/my_route--1/rlog.zst");
  EXPECT_EQ(find(folder / "made").name, "my_route");
  EXPECT_EQ(numbers(find(folder / "made")), (std::vector<int>{0, 1}));
}

TEST_F(RouteTest, TheBetterFileOfEachKind) {
  for (const char* file : {"s/rlog", "s/rlog.bz2", "s/rlog.zst", "s/qlog.bz2", "s/qlog"}) touch(file);
  const Route route = find(folder / "s");
  EXPECT_EQ(route.segments[0].rlog.filename(), "rlog.zst");
  EXPECT_EQ(route.segments[0].qlog.filename(), "qlog.bz2");
  EXPECT_EQ(route.log(route.segments[0]).filename(), "rlog.zst");
}

TEST_F(RouteTest, RangesAreAsPythonHasThem) {
  for (const int n : {0, 1, 2, 3, 5, 6, 7, 8, 9}) touch(fmt::format("{}--{}/rlog.zst", kOld, n));
  const auto range = [&](const std::string& text) { return numbers(find(std::string(kOld) + "/" + text)); };
  using Numbers = std::vector<int>;
  EXPECT_EQ(range(":"), (Numbers{0, 1, 2, 3, 5, 6, 7, 8, 9}));
  EXPECT_EQ(range("2:6"), (Numbers{2, 3, 5}));
  EXPECT_EQ(range(":2"), (Numbers{0, 1}));
  EXPECT_EQ(range("7:"), (Numbers{7, 8, 9}));
  EXPECT_EQ(range("-2:"), (Numbers{8, 9}));
  EXPECT_EQ(range(":-8"), (Numbers{0, 1}));
  EXPECT_EQ(range("-100:2"), (Numbers{0, 1}));
  EXPECT_EQ(range("::3"), (Numbers{0, 3, 6, 9}));
  EXPECT_EQ(range("-1"), (Numbers{9}));
  EXPECT_EQ(range("3"), (Numbers{3}));
  EXPECT_EQ(range("8:12"), (Numbers{8, 9}));
  EXPECT_EQ(find(fmt::format("{}/8:12/r", kOld)).notes[0], "segments 10, 11 are not there");
  EXPECT_EQ(find(kOld).notes[0], "segment 4 is not there");
  EXPECT_EQ(refusal(fmt::format("{}/4", kOld), folder.path()),
            "2023-07-27--13-01-19: there is no segment 4; it has segments 0 to 3, 5 to 9");
  EXPECT_NE(refusal(fmt::format("{}/-11", kOld), folder.path()), "");
  EXPECT_NE(refusal(fmt::format("{}/6:2", kOld), folder.path()).find("the range holds no segment"), std::string::npos);
}

TEST_F(RouteTest, WhatIsMissingIsNoted) {
  touch("r/0/rlog.zst");
  touch("r/0/fcamera.hevc");
  touch("r/1/qlog.zst");
  touch("r/1/fcamera.hevc");
  touch("r/2/fcamera.hevc");
  touch("r/2/ecamera.hevc");
  touch("r/5/rlog.zst");
  touch("r/9999999/rlog.zst");  // no segment has such a number
  EXPECT_EQ(notes(find(folder / "r")),
            "segments 3, 4 are not there\nsegment 2 has no log\nsegment 5 has no road camera video\n"
            "segments 0, 1, 5 have no wide camera video\n");
  touch("log/rlog.zst");
  EXPECT_EQ(notes(find(folder / "log")), "there is no video\n");
  touch("video/qcamera.ts");
  EXPECT_EQ(notes(find(folder / "video")), "there is no log\n");
  touch(fmt::format("{}--0/qlog.zst", kOld));
  const Route full = find(std::string(kOld) + "/r");
  EXPECT_EQ(full.notes[0], "there is no full log (rlog)");
  EXPECT_TRUE(full.log(full.segments[0]).empty());
}

TEST_F(RouteTest, WhatIsNoRouteIsNamed) {
  EXPECT_NE(refusal("nothing/here").find("no such file or folder, and it is no route's name"), std::string::npos);
  EXPECT_NE(refusal(std::string("a\0b", 3)).find("zero byte"), std::string::npos);
  EXPECT_NE(refusal("").find("no such file"), std::string::npos);
  touch("empty/readme.txt");
  EXPECT_NE(refusal(folder / "empty").find("holds no route"), std::string::npos);
  write_text(folder / "empty/summary.json", "{}");
  EXPECT_NE(refusal(folder / "empty").find("name the recording itself"), std::string::npos);
  touch("two/2023-07-27--13-01-19--0/rlog");
  touch("two/2023-07-27--13-01-20--0/rlog");
  const std::string two = folder.file("two");
  EXPECT_EQ(refusal(two), fmt::format("{0}: holds 2 routes; give one of them instead: '{0}/2023-07-27--13-01-19' or "
                                      "'{0}/2023-07-27--13-01-20'",
                                      two));
  const Route one = find_route(two + "/2023-07-27--13-01-20");
  EXPECT_EQ(one.name, "2023-07-27--13-01-20");
  EXPECT_EQ(numbers(one), std::vector{0});
  EXPECT_NE(refusal(two + "/2023-07-27--13-01-21").find("no such file or folder"), std::string::npos);
  touch("a2a0ccea32023010|2023-07-27--13-01-19--0/rlog");
  touch("b2a0ccea32023010|2023-07-27--13-01-19--0/rlog");
  EXPECT_NE(refusal(kOld, folder.path()).find("holds 2 routes"), std::string::npos);
}

TEST_F(RouteTest, ADeviceIsHeldAgainstWhatTheLogSays) {
  const auto write = [&](const fs::path& log, const char* dongle) {
    fs::create_directories(log.parent_path());
    capnp::MallocMessageBuilder message;
    message.initRoot<cereal::Event>().initInitData().setDongleId(dongle);
    LogWriter writer(log);
    writer.write(message);
    writer.commit();
  };
  const std::string name = fmt::format("{}|{}", kDongle, kOld), place = fmt::format("{}--0", kOld);
  touch(place + "/fcamera.hevc");
  EXPECT_EQ(find(name).name, kOld);
  EXPECT_NE(notes(find(name)).find("neither the folder nor a log says whether it is of the device a2a0ccea32023010"),
            std::string::npos)
      << notes(find(name));
  EXPECT_EQ(notes(find(kOld)).find("neither"), std::string::npos);
  write(folder / place / "rlog.zst", kDongle);
  EXPECT_EQ(find(name).name, name);
  EXPECT_EQ(notes(find(name)).find("neither"), std::string::npos);
  write(folder / place / "rlog.zst", "0123456789abcdef");
  const std::string refused = refusal(name, folder.path());
  EXPECT_NE(refused.find("is of the device 0123456789abcdef, not a2a0ccea32023010"), std::string::npos) << refused;
  EXPECT_EQ(find(kOld).name, kOld);
}

TEST_F(RouteTest, ANameThatIsNotThereSaysHowToGetIt) {
  const std::string data = folder.path().string();
  const std::string missing = refusal(fmt::format("{}|{}", kDongle, kOld), data);
  EXPECT_NE(missing.find("not in " + data), std::string::npos);
  EXPECT_NE(missing.find("https://connect.comma.ai/a2a0ccea32023010/2023-07-27--13-01-19"), std::string::npos);
  EXPECT_NE(refusal(kOld, data / fs::path("none")).find("scp -r 'comma@DEVICE:/data/media/0/realdata/"),
            std::string::npos);
  EXPECT_NE(refusal("eb140f119469d9ab|2021-06-12--10-46-24--27", data)
                .find("https://commadataci.blob.core.windows.net/openpilotci/eb140f119469d9ab/2021-06-12--10-46-24/27/"
                      "rlog.bz2"),
            std::string::npos);
}

TEST_F(RouteTest, TheSetOfTestSegments) {
  EXPECT_THROW(find_routes("ci", {folder.path()}), Error);
  touch("eb140f119469d9ab/2021-06-12--10-46-24/27/rlog.bz2");
  touch("eb140f119469d9ab/2021-06-12--10-46-24/28/rlog.bz2");
  touch("bc095dc92e101734|000000db--ee9fe46e57--1--rlog.zst");
  const std::vector<Route> routes = find_routes("ci", {folder.path()});
  ASSERT_EQ(routes.size(), 2u);
  EXPECT_EQ(routes[0].name, "eb140f119469d9ab|2021-06-12--10-46-24");
  EXPECT_EQ(numbers(routes[0]), std::vector<int>{27});
  EXPECT_EQ(routes[0].notes.size(), 1 + ci_segments().size() - 2);
}

TEST_F(RouteTest, LogsAndWhatIsMissingOfThem) {
  touch("route/0/rlog");
  touch("route/1/fcamera.hevc");
  touch("route/3/qlog");
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) { said.push_back(text); };
  const std::vector<fs::path> logs = logs_of(find_routes(folder.file("route")), "asked", say);
  EXPECT_EQ(logs, (std::vector<fs::path>{folder / "route/0/rlog", folder / "route/3/qlog"}));
  EXPECT_EQ(said, (std::vector<std::string>{"route: 1 segments are not there", "route: segment 1 has no log"}));
  try {
    logs_of(find_routes(folder.file("route/1")), "asked", say);
    ADD_FAILURE() << "logs of a segment that has none";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "asked: the route has no log to read");
  }
}

TEST_F(RouteTest, LinksInARingEndNothing) {
  fs::create_directory_symlink(folder.path(), folder / "0");
  fs::create_directory_symlink(folder / "b", folder / "a");
  fs::create_directory_symlink(folder / "a", folder / "b");
  fs::create_symlink(folder / "rlog", folder / "rlog");
  EXPECT_NE(refusal(folder.path()).find("holds no route"), std::string::npos);
  EXPECT_NE(refusal(folder / "a").find("no such file"), std::string::npos);
  touch("x--0/rlog");
  EXPECT_EQ(numbers(find(folder.path())), std::vector<int>{0});
}

}  // namespace route_test
}  // namespace sparkpilot::drive
