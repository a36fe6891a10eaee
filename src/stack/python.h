// Python environments: where they are, and which package a file came with.
#pragma once

#include <filesystem>
#include <map>
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
  std::map<std::string, PythonPackage> by_file;  // by the libraries and compilers that their records list
};

// The site-packages of environments in the usual places: the system's, users', venvs, conda, pyenv. `here` lists
// folders that may be environments or hold one (.venv), such as the current one.
std::vector<std::filesystem::path> find_sites(const Tree& tree, const std::vector<std::filesystem::path>& here);

// The site-packages of one that was named: the environment's folder, its python, or the site-packages themselves. Fails
// (user) where it is none of them.
std::vector<std::filesystem::path> sites_of(const Tree& tree, const std::filesystem::path& named);

// Adds the packages whose metadata lies in `site`.
void read_packages(const Tree& tree, const std::filesystem::path& site, PythonPackages& packages);

// Where a conda environment keeps libraries beside its Python packages; none for others.
std::vector<std::filesystem::path> conda_folders(const Tree& tree, const std::filesystem::path& site);

}  // namespace sparkpilot::stack
