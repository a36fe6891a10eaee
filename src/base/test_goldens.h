// For tests: numbers that another program made, in a text file of sections.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace sparkpilot {

// The rows of the section `name`: its name on a line, the number of rows, the rows. Throws if it is not there.
inline std::vector<std::vector<double>> golden_section(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  std::vector<std::vector<double>> rows;
  for (std::string line; std::getline(in, line);) {
    if (line != name) continue;
    std::getline(in, line);
    rows.resize(std::stoul(line));
    for (auto& row : rows) {
      std::getline(in, line);
      std::istringstream words(line);
      for (double value; words >> value;) row.push_back(value);
    }
  }
  if (rows.empty()) throw std::runtime_error(file + ": no section " + name);
  return rows;
}

}  // namespace sparkpilot
