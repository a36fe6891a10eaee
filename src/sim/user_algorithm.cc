#include "sim/user_algorithm.h"

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "sim/csv.h"
#include "sim/md5.h"

namespace sparkpilot::sim {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kLargestGraphFile = int64_t{1} << 30;

std::string hash_of(const std::vector<fs::path>& files) {
  std::string bytes, text;
  for (const fs::path& file : files) bytes += read_file(file, kLargestGraphFile);
  for (const uint8_t byte : md5(bytes)) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

UserAlgorithm::UserAlgorithm(const fs::path& file) : name_(valid_utf8(file.filename().string())) {
  set_files({fs::absolute(file)});
}
UserAlgorithm::~UserAlgorithm() = default;

bool UserAlgorithm::names_file(std::string_view algorithm) {
  return algorithm.find('/') != std::string_view::npos || algorithm.ends_with(".so") || algorithm.ends_with(".py") ||
         algorithm.ends_with(".onnx");
}

void UserAlgorithm::set_files(std::vector<fs::path> files) {
  files_ = std::move(files);
  hash_ = hash_of(files_);
}

void UserAlgorithm::check_unchanged() const {
  if (hash_of(files_) != hash_) fail("{}: was changed meanwhile; some worlds may be of another one", file().string());
}

std::string UserAlgorithm::no_command(const float* commands, int step) const {
  const auto wrong = [&](const char* what, float value) {
    return fmt::format("{}: update at {:.2f} s gave {} of {}", name_, step * kStep, what, value);
  };
  if (!std::isfinite(commands[0])) return wrong("a lateral command", commands[0]);
  if (longitudinal_ && !std::isfinite(commands[1])) return wrong("an acceleration", commands[1]);
  return {};
}

}  // namespace sparkpilot::sim
