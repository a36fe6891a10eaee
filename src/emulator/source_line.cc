#include "emulator/source_line.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"

namespace sparkpilot::emulator {

std::string SourceLines::of(const void* return_address) {
  const auto* const at = static_cast<const char*>(return_address) - 1;  // in the call, not behind it
  Dl_info info;
  if (dladdr(at, &info) == 0 || !info.dli_fname) return "?";
  const std::string offset = fmt::format("{:#x}", at - static_cast<const char*>(info.dli_fbase));
  const std::string unknown = std::filesystem::path(info.dli_fname).filename().string() + "+" + offset;
  try {
    std::unique_ptr<ChildProcess>& reader = readers_[info.dli_fname];
    if (!reader) {
      reader =
          std::make_unique<ChildProcess>(ChildOptions{.command = {"addr2line", "-e", info.dli_fname}, .folder = {}});
    }
    std::string line;
    if (reader->write_line(offset, 10) != ChildProcess::Answer::ok) return unknown;
    if (reader->read_line(line, 10) != ChildProcess::Answer::ok || line.starts_with("??")) return unknown;
    line = line.substr(line.rfind('/') + 1);
    return line.substr(0, line.find(' '));  // without "(discriminator 3)"
  } catch (const Error&) {
    return unknown;
  }
}

}  // namespace sparkpilot::emulator
