#include "base/with_file.h"

#include <string>

#include "base/error.h"

namespace sparkpilot {

void with_file(const std::filesystem::path& file, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string text = error.what(), name = file.string();
    if (text.find(name) != std::string::npos) throw;
    throw Error(error.kind(), fmt::format("{}: {}", name, text));
  }
}

}  // namespace sparkpilot
