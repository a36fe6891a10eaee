#include "hw/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hw/parse_text.h"
#include "hw/record.h"
#include "hw/redact.h"
#include "sparkpilot/error.h"

namespace sparkpilot {
namespace {
namespace fs = std::filesystem;

class Tree : public testing::Test {
 protected:
  Tree() : root_(fs::path(testing::TempDir()) / ("tree" + std::to_string(getpid()))) { fs::create_directories(root_); }
  ~Tree() override { fs::remove_all(root_); }
  void write(const std::string& path, std::string_view text) const {
    fs::create_directories((root_ / path.substr(1)).parent_path());
    std::ofstream(root_ / path.substr(1), std::ios::binary) << text;
  }
  void link(const std::string& path, const std::string& target) const {
    fs::create_directories((root_ / path.substr(1)).parent_path());
    fs::create_symlink(target, root_ / path.substr(1));
  }
  std::unique_ptr<Source> source() const { return system_source({.root = root_}); }
  fs::path root_;
};

TEST_F(Tree, ReadsFilesAndFolders) {
  write("/proc/meminfo", "MemTotal: 1 kB\n");
  write("/sys/a/value", " 42\n");
  write("/sys/b/value", "x");
  write("/sys/c/words", std::string_view(" two words\n\0", 12));
  write("/sys/c/lines", "two\nlines\n");
  write("/sys/c/blank", " \n");
  const auto source = this->source();
  EXPECT_EQ(source->read("/proc/meminfo"), "MemTotal: 1 kB\n");
  EXPECT_EQ(source->read("/proc/meminfo", 3), "Mem");
  EXPECT_EQ(source->read("/proc/none"), std::nullopt);
  EXPECT_EQ(source->read("/proc"), std::nullopt);
  EXPECT_EQ(source->read("proc/meminfo"), std::nullopt);
  EXPECT_EQ(source->list("/sys"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(source->list("/none").empty());
  EXPECT_EQ(read_integer(*source, "/sys/a/value"), 42);
  EXPECT_EQ(read_integer(*source, "/sys/b/value"), std::nullopt);
  EXPECT_EQ(read_word(*source, "/sys/a/value"), "42");
  EXPECT_EQ(read_word(*source, "/sys/c/words"), "two words");
  EXPECT_EQ(read_word(*source, "/sys/c/lines"), std::nullopt);
  EXPECT_EQ(read_word(*source, "/sys/c/blank"), std::nullopt);
  EXPECT_EQ(source->access("/sys/a/value"), Access::read_write);
  EXPECT_EQ(source->access("/sys/d"), Access::absent);
  EXPECT_GT(source->space("/sys")->total_bytes, 0);
}

TEST_F(Tree, AsksNothingOfThisMachine) {
  setenv("SOURCE_TEST", "1", 1);
  const auto source = this->source();
  EXPECT_EQ(source->variable("SOURCE_TEST"), std::nullopt);
  EXPECT_EQ(system_source()->variable("SOURCE_TEST"), "1");
  EXPECT_EQ(source->nvml().state, GpuDriverAnswers::State::absent);
  EXPECT_EQ(source->kernel_log({""}), std::nullopt);
  EXPECT_EQ(source->architecture(), "");
  std::string elf("\177ELF\2\1\1", 7);
  elf.resize(18, '\0');
  elf += '\xb7';
  elf += '\0';
  write("/bin/sh", elf);
  EXPECT_EQ(source->architecture(), "aarch64");
}

TEST_F(Tree, LinksStayInside) {
  write("/etc/inner", "inside");
  link("/absolute", "/etc/inner");
  link("/climbing", "../../../../../etc/inner");
  link("/etc/passwd", "/outer/passwd");
  link("/loop", "/loop");
  link("/folder", "/etc");
  const auto source = this->source();
  EXPECT_EQ(source->read("/absolute"), "inside");
  EXPECT_EQ(source->read("/climbing"), "inside");
  EXPECT_EQ(source->read("/../../etc/inner"), "inside");
  EXPECT_EQ(source->read("/folder/inner"), "inside");
  EXPECT_EQ(source->read("/etc/passwd"), std::nullopt);
  EXPECT_EQ(source->read("/loop"), std::nullopt);
  EXPECT_EQ(source->link("/absolute"), "/etc/inner");
  EXPECT_EQ(source->link("/etc/inner"), std::nullopt);
}

TEST_F(Tree, APipeMakesNobodyWait) {
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(source()->read("/pipe"), std::nullopt);
}

TEST_F(Tree, NoTreeIsAnError) {
  EXPECT_THROW(system_source({.root = root_ / "none"}), Error);
  write("/file", "");
  EXPECT_THROW(system_source({.root = root_ / "file"}), Error);
}

TEST_F(Tree, ARecordingAnswersAsTheMachineDid) {
  write("/proc/meminfo", "MemTotal: 1 kB\nMemFree: 2 kB\n");
  write("/proc/model", std::string("comma mici\0", 11));
  write("/sys/class/net/eth0/mtu", "1500\n");
  write("/sys/class/net/eth0/address", "aa:bb:cc:dd:ee:ff\n");
  link("/sys/class/net/lo", "../../devices/lo");
  const auto source = this->source();
  Recorder recorder(*source);
  const auto ask = [](Source& s) {
    std::vector<std::string> out = {s.read("/proc/meminfo").value_or("-"),
                                    s.read("/proc/model").value_or("-"),
                                    s.read("/none").value_or("-"),
                                    s.link("/sys/class/net/lo").value_or("-"),
                                    s.read("/sys/class/net/eth0/mtu").value_or("-"),
                                    s.architecture()};
    for (const std::string& name : s.list("/sys/class/net")) out.push_back(name);
    out.push_back(std::to_string(static_cast<int>(s.access("/proc/meminfo"))));
    out.push_back(std::to_string(s.space("/proc")->total_bytes));
    return out;
  };
  const std::vector<std::string> answers = ask(recorder);
  recorder.read("/sys/class/net/eth0/address", 100);
  const std::string text = recorder.json();
  EXPECT_EQ(text.find("aa:bb"), std::string::npos) << text;
  const auto replay = recorded_source(text, "test");
  EXPECT_EQ(ask(*replay), answers);
  Recorder again(*replay);
  ask(again);
  EXPECT_EQ(again.json(), text) << "a recording of a recording";
}

// A desktop's folder of libraries has that many entries.
TEST(Record, ListsFoldersOfThousands) {
  constexpr size_t kMany = 5000;
  std::string names = "\"lib0.so\"";
  for (size_t i = 1; i < kMany; ++i) names += ",\"lib" + std::to_string(i) + ".so\"";
  const auto source = recorded_source(R"({"sparkpilot_record": 1, "folders": {"/usr/lib": [)" + names + "]}}", "test");
  EXPECT_EQ(source->list("/usr/lib").size(), kMany);
}

TEST(Record, KeepsTheDriversAnswers) {
  const std::string text = R"({"sparkpilot_record": 1,
    "nvml": {"state": "answered", "library": "x", "system": {"driver_version": "580"},
             "devices": [{"name": "NVIDIA GB10", "memory_total_bytes": {"error": 3}, "temperature_c": 41}],
             "processes": [[{"pid": 7}]]},
    "cuda": {"state": "failed", "error": 803},
    "kernel_log": ["NVRM: Xid 79", "other"]})";
  const auto source = recorded_source(text, "test");
  Recorder recorder(*source);
  recorder.nvml();
  recorder.cuda();
  EXPECT_EQ(recorder.kernel_log({"Xid"}), std::vector<std::string>{"NVRM: Xid 79"});
  const auto again = recorded_source(recorder.json(), "again");
  EXPECT_EQ(again->nvml(), source->nvml());
  EXPECT_EQ(again->cuda().error, 803);
  EXPECT_EQ(error_of(again->nvml().devices.at(0), "memory_total_bytes"), 3);
  EXPECT_EQ(again->kernel_log({""}), std::vector<std::string>{"NVRM: Xid 79"});
}

TEST(Record, FoldersFollowFromFiles) {
  const auto source = recorded_source(R"({"sparkpilot_record": 1, "files": {"/a/b/c": ["x", "y"]},
    "links": {"/a/d": "b"}, "folders": {"/a": ["e"], "/f/g": []}})",
                                      "test");
  EXPECT_EQ(source->list("/"), (std::vector<std::string>{"a", "f"}));
  EXPECT_EQ(source->list("/a/"), (std::vector<std::string>{"b", "d", "e"}));
  EXPECT_EQ(source->read("/a/b/c"), "x\ny\n");
  EXPECT_EQ(source->access("/a/b/c"), Access::read_only);
}

TEST(Record, SaysWhatIsWrong) {
  const auto message = [](const char* text) {
    try {
      recorded_source(text, "file.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message("{"),
            "file.json: expected a machine that `sparkpilot doctor --record` wrote, this is not even JSON");
  EXPECT_EQ(message("[1]"),
            "file.json: expected a machine that `sparkpilot doctor --record` wrote, this is other JSON");
  EXPECT_EQ(message(R"({"sparkpilot_record": 2})"),
            "file.json: expected a recorded machine of version 1, this one is of version 2");
  EXPECT_EQ(message(R"({"sparkpilot_record": 1, "files": {"/x": 3}})"),
            "file.json: \"/x\" is number, expected a text or a list of lines");
  EXPECT_EQ(message(R"({"sparkpilot_record": 1, "nvml": {}})"),
            "file.json: \"nvml.state\" is missing, expected a text");
  EXPECT_EQ(message(R"({"sparkpilot_record": 1, "nvml": {"state": "answered", "devices": [{"name": 1.5}]}})"),
            "file.json: \"nvml.devices.name\" is number, expected a number, a text or {\"error\": code}");
  EXPECT_EQ(message(R"({"sparkpilot_record": 1, "space": {"/": {"total_bytes": 18446744073709551615}}})"),
            "file.json: \"/\" is number, expected an integer of 64 bits");
  EXPECT_EQ(message(R"({"sparkpilot_record": 1, "access": {"/": "all"}})"),
            "file.json: \"/\" is \"all\", expected one of absent, denied, read_only, read_write");
}

TEST(Redact, TakesOutWhatNamesOneMachine) {
  const Redactor redact({"alice", "root", "nvidia", "42"});
  EXPECT_EQ(redact("SERIAL_NUMBER=\"157\"\nDGX_NAME=\"DGX Spark\"\n"),
            "SERIAL_NUMBER=\"<removed>\"\nDGX_NAME=\"DGX Spark\"\n");
  EXPECT_EQ(redact("5:memory:/docker/x\n0::/user.slice\n"), "5:memory:/docker/x\n0::/user.slice\n");
  EXPECT_EQ(redact("Serial\t\t: 00c0ffee\nModel: x"), "Serial\t\t: <removed>\nModel: x");
  EXPECT_EQ(redact("quiet androidboot.serialno=abc root=/dev/sda"),
            "quiet androidboot.serialno=<removed> root=/dev/sda");
  EXPECT_EQ(redact("link aa:bb:cc:dd:ee:ff up"), "link <address> up");
  EXPECT_EQ(redact("fe80::1 and 9c63:c003:00ab:cdef"), "<address> and <address>");
  EXPECT_EQ(redact("root=UUID=123e4567-e89b-12d3-a456-426614174000"), "root=UUID=<uuid>");
  EXPECT_EQ(redact("nfs 192.168.1.17:/data"), "nfs <address>:/data");
  EXPECT_EQ(redact("/home/j\xc3\xbcrgen.k-1/data"), "/home/user/data");
  EXPECT_EQ(redact("nas:/export /data nfs4 rw\nbob@box:/x /y fuse.sshfs"),
            "<host>:/export /data nfs4 rw\n<host>:/x /y fuse.sshfs");
  EXPECT_EQ(redact("/home/alice/models /home/bob.b/x"), "/home/user/models /home/user/x");
  EXPECT_EQ(redact("alice malice alice_2"), "<name> malice alice_2");
}

TEST(Redact, LeavesTheRest) {
  const Redactor redact({"root", "nvidia", "x"});
  for (const char* text : {"0000:01:00.0", "12:34:56", "libcublas.so.13.1.0.3", "v13.1.0.3", "580.95.05", "127.0.0.1",
                           "NVRM: Xid (PCI:0000:01:00): 79, pid=1", "nvidia root", "10de:2e12", "std::vector", "/home/",
                           "see https://x.org/a", "serial", "0-9,12", "\xff\xfe"}) {
    EXPECT_EQ(redact(text), text);
  }
}

}  // namespace
}  // namespace sparkpilot
