// Python environments: where they are, and which package a file came with.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stack/tree.h"

namespace sparkpilot::stack {

struct PythonPackage {
  std::string name, version;
};

// The packages of one or more folders of packages.
struct PythonPackages {
  std::map<std::string, PythonPackage> by_name;  // in small letters with dashes
  std::map<std::string, PythonPackage> by_file;  // by libraries and compilers in their records
};

// The site-packages of environments in the usual places: the system's, users', venvs, conda, pyenv. `here` lists
// folders that may be environments or contain one (.venv), such as the current folder; `home` the user's, unless empty.
std::vector<std::filesystem::path> find_sites(const Tree& tree, const std::vector<std::filesystem::path>& here,
                                              const std::filesystem::path& home = {});

// The environment whose python3 comes first in `path`, a list as $PATH is; empty if absent. Containers often
// have theirs there and set no other variable.
std::optional<std::filesystem::path> environment_on_path(const std::string& path);

// The site-packages of a named environment: its folder, its python, or the site-packages themselves. Fails (user) if it
// is none of these.
std::vector<std::filesystem::path> sites_of(const Tree& tree, const std::filesystem::path& named);

// Adds the packages whose metadata is in `site`.
void read_packages(const Tree& tree, const std::filesystem::path& site, PythonPackages& packages);

// The folders in which a conda environment keeps libraries, in addition to its Python packages; none for other
// environments.
std::vector<std::filesystem::path> conda_folders(const Tree& tree, const std::filesystem::path& site);

}  // namespace sparkpilot::stack
