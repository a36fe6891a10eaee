#include "stack/python.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "base/error.h"
#include "stack/library.h"
#include "stack/text.h"

namespace sparkpilot::stack {
namespace fs = std::filesystem;
namespace {

constexpr std::array kSystemSites{
    "/usr/lib/python3/dist-packages",    "/usr/local/lib/python3*/dist-packages",
    "/usr/lib/python3*/site-packages",   "/usr/local/lib/python3*/site-packages",
    "/opt/*/lib/python3*/site-packages", "/opt/conda/envs/*/lib/python3*/site-packages",
};
// Below a user's home folder.
constexpr std::array kUserSites{
    ".local/lib/python3*/site-packages",
    ".pyenv/versions/*/lib/python3*/site-packages",
    ".virtualenvs/*/lib/python3*/site-packages",
    "mini*/lib/python3*/site-packages",
    "mini*/envs/*/lib/python3*/site-packages",
    "*conda*/lib/python3*/site-packages",
    "*conda*/envs/*/lib/python3*/site-packages",
    "mambaforge/lib/python3*/site-packages",
    "mambaforge/envs/*/lib/python3*/site-packages",
    ".conda/envs/*/lib/python3*/site-packages",
    "*env*/lib/python3*/site-packages",
    ".*env*/lib/python3*/site-packages",
    "*/*env*/lib/python3*/site-packages",
    "*/.venv/lib/python3*/site-packages",
};
constexpr std::array kEnvironmentSites{"lib/python3*/site-packages", "lib64/python3*/site-packages"};

// Reads the relevant paths in a RECORD: its lines are path, hash and size, and a path with a comma is in quotes.
void read_record(const std::string& text, const fs::path& site, const PythonPackage& package,
                 PythonPackages& packages) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const bool quoted = text[at] == '"';
    const size_t begin = at + quoted;
    const size_t stop = std::min(text.find(quoted ? '"' : ',', begin), end);
    const fs::path file(text.substr(begin, stop - begin));
    const std::string name = file.filename().string();
    if (is_library_name(name) || is_compiler_name(name)) {
      packages.by_file[(site / file).lexically_normal().string()] = package;
    }
    at = end + 1;
  }
}

}  // namespace

std::vector<fs::path> find_sites(const Tree& tree, const std::vector<fs::path>& here, const fs::path& home) {
  std::vector<fs::path> found;
  std::set<fs::path> seen;
  const auto take = [&](const std::string& pattern) {
    for (const fs::path& site : tree.find(pattern)) {
      if (tree.is_folder(site) && seen.insert(*tree.resolve(site)).second) found.push_back(site);
    }
  };
  for (const fs::path& folder : here) {
    for (const char* inner : {"", ".venv", "venv"}) {
      for (const char* site : kEnvironmentSites) take((folder / inner / site).string());
    }
  }
  for (const char* pattern : kSystemSites) take(pattern);
  for (const std::string& folder : {home.string(), std::string("/root"), std::string("/home/*")}) {
    if (folder.empty()) continue;
    for (const char* pattern : kUserSites) take(fmt::format("{}/{}", folder, pattern));
  }
  return found;
}

std::optional<fs::path> environment_on_path(const std::string& path) {
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path bin(folder);
    std::error_code none;
    if (bin.is_absolute() && bin.filename() == "bin" && fs::exists(bin / "python3", none)) return bin.parent_path();
  }
  return std::nullopt;
}

std::vector<fs::path> sites_of(const Tree& tree, const fs::path& named) {
  fs::path folder = named;
  if (!tree.is_folder(folder) && named.parent_path().filename() == "bin") folder = named.parent_path().parent_path();
  if (folder.filename() == "site-packages" || folder.filename() == "dist-packages") return {folder};
  std::vector<fs::path> found;
  std::set<fs::path> seen;
  for (const char* site : kEnvironmentSites) {
    for (const fs::path& path : tree.find((folder / site).string())) {
      if (seen.insert(*tree.resolve(path)).second) found.push_back(path);
    }
  }
  if (found.empty()) {
    fail(
        "{}: no Python environment: expected its folder with lib/python3*/site-packages, its bin/python, or "
        "site-packages",
        named.string());
  }
  return found;
}

void read_packages(const Tree& tree, const fs::path& site, PythonPackages& packages) {
  for (const std::string& entry : tree.names(site)) {
    if (!entry.ends_with(".dist-info")) continue;
    const std::string metadata = tree.text(site / entry / "METADATA");
    const PythonPackage package{field(metadata, "Name"), field(metadata, "Version")};
    if (package.name.empty()) continue;
    packages.by_name[package_name(package.name)] = package;
    read_record(tree.text(site / entry / "RECORD", 256 << 20), site, package, packages);
  }
}

std::vector<fs::path> conda_folders(const Tree& tree, const fs::path& site) {
  const fs::path prefix = site.parent_path().parent_path().parent_path();
  if (!tree.has(prefix / "conda-meta")) return {};
  std::vector<fs::path> folders = tree.find((prefix / "targets/*/lib").string());
  folders.push_back(prefix / "lib");
  return folders;
}

}  // namespace sparkpilot::stack
