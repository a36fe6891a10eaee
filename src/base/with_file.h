// Errors that name the file they are about.
#pragma once

#include <filesystem>
#include <functional>

namespace sparkpilot {

// Runs `work`; adds the file's name to an error of the library that does not contain it.
void with_file(const std::filesystem::path& file, const std::function<void()>& work);

}  // namespace sparkpilot
