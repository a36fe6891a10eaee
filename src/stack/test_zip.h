// Zip archives for tests.
#pragma once

#include <zip.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sparkpilot::stack {

inline void write_zip(const std::filesystem::path& path,
                      const std::vector<std::pair<std::string, std::string>>& members) {
  int error = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (!zip) fail_internal("{}: zip error {}", path.string(), error);
  for (const auto& [name, bytes] : members) {
    zip_source_t* source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
    if (zip_file_add(zip, name.c_str(), source, 0) < 0) fail_internal("{}: {}", path.string(), zip_strerror(zip));
  }
  if (zip_close(zip) != 0) fail_internal("{}: {}", path.string(), zip_strerror(zip));
}

}  // namespace sparkpilot::stack
