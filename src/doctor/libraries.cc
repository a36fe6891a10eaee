#include "doctor/libraries.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

namespace sparkpilot::doctor {
namespace {

constexpr size_t kMaxFolders = 200;

void add(std::vector<std::string>& folders, const std::string& folder) {
  const size_t end = folder.find_last_not_of("/ \t");
  if (end == std::string::npos || folder[0] != '/' || folders.size() >= kMaxFolders) return;
  const std::string name = folder.substr(0, end + 1);
  if (std::find(folders.begin(), folders.end(), name) == folders.end()) folders.push_back(name);
}

template <typename F>
void each_part(const std::string& text, char separator, F&& f) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    f(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

void add_configured(Source& source, std::vector<std::string>& folders) {
  for (const std::string& name : source.list("/etc/ld.so.conf.d")) {
    if (!name.ends_with(".conf")) continue;
    const std::string text = source.read("/etc/ld.so.conf.d/" + name).value_or("");
    each_part(text, '\n', [&](const std::string& line) { add(folders, line.substr(0, line.find('#'))); });
  }
}

}  // namespace

std::vector<std::string> library_folders(Source& source, const std::string& architecture) {
  std::vector<std::string> folders;
  each_part(source.variable("LD_LIBRARY_PATH").value_or(""), ':', [&](const std::string& part) { add(folders, part); });
  add_configured(source, folders);
  for (const char* root : {"/lib/", "/usr/lib/"}) {
    if (architecture.empty()) continue;
    const std::string folder = root + architecture + "-linux-gnu";
    add(folders, folder);
    // NVIDIA's packages of cuSPARSELt put a folder for each CUDA there, and links beside it.
    std::vector<std::string> cudas = source.list(folder + "/libcusparseLt");
    std::ranges::sort(cudas, std::greater());
    for (const std::string& cuda : cudas) add(folders, folder + "/libcusparseLt/" + cuda);
  }
  for (const char* folder : {"/lib64", "/usr/lib64", "/usr/lib", "/lib", "/usr/local/cuda/lib64", "/usr/local/lib"}) {
    add(folders, folder);
  }
  return folders;
}

std::optional<FoundLibrary> find_library(Source& source, const std::vector<std::string>& folders,
                                         const std::string& stem) {
  const std::string prefix = stem + ".so.";
  for (const std::string& folder : folders) {
    FoundLibrary found;
    for (const std::string& name : source.list(folder)) {
      if (!name.starts_with(prefix)) continue;
      const std::optional<Version> version = version_of_file(name);
      if (!version) continue;
      // The longest name is the most precise: libcudnn.so.9.13.0 rather than libcudnn.so.9.
      const size_t had = found.version ? found.version->numbers.size() : 0;
      if (version->numbers.size() > had || (version->numbers.size() == had && *found.version < *version)) {
        found = {fmt::format("{}/{}", folder, name), version};
      }
    }
    if (!found.path.empty()) return found;
  }
  return std::nullopt;
}

}  // namespace sparkpilot::doctor
