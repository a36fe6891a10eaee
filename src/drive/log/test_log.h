// For tests: logs of a few events, and files that go away again.
#pragma once

#include <capnp/message.h>
#include <drive/log/schema/log.capnp.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "drive/log/writer.h"

namespace sparkpilot::drive {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sparkpilot_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

// Event `i` of the test logs: a carState at 100 Hz whose speed is i / 8 m/s.
inline void fill_car_state(capnp::MessageBuilder& message, int i) {
  cereal::Event::Builder event = message.initRoot<cereal::Event>();
  event.setLogMonoTime(1'000'000'000 + uint64_t{10'000'000} * static_cast<uint64_t>(i));
  event.initCarState().setVEgo(static_cast<float>(i) / 8);
}

inline void write_log(const std::filesystem::path& file, int events) {
  LogWriter writer(file);
  for (int i = 0; i < events; ++i) {
    capnp::MallocMessageBuilder message;
    fill_car_state(message, i);
    writer.write(message);
  }
  writer.commit();
}

}  // namespace sparkpilot::drive
