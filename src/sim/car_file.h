// Cars from files: the numbers of a car, its steering and its powertrain as JSON, which others may have written.
//
//   {"format": "sparkpilot car 1", "name": "my car", "base": "civic",
//    "mass_kg": 1523, "inertia_kg_m2": 2548, "wheelbase_m": 2.67, "center_to_front_m": 1.17,
//    "stiffness_front_n_per_rad": 83003, "stiffness_rear_n_per_rad": 103094, "steer_ratio": 14.1, ...}
//
// Numbers that are left out are those of `base`, a preset. "sources" (an object of texts) says where each is from.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "sim/world.h"

namespace sparkpilot::sim {

struct Car {
  std::string name;
  Vehicle vehicle;
  Steering steering = {};
  Powertrain powertrain = {};
};

// Whether a name is a file's: it holds a '/' or ends in .json.
bool is_car_file(std::string_view name);
// A preset, or the car of a file. Fails (user) on a name that is neither, naming the presets.
Car find_car(std::string_view name);

// Fails (user) naming the file and the key: what is no such JSON, unknown keys, what is no number, and numbers that no
// car has. The car is named after the file and a hash of its contents.
Car read_car(const std::filesystem::path& file);
// The same from text; `name` is the file's in errors.
Car parse_car(const std::string& text, const std::string& name);

// The file's text, with every number. `sources`: by key.
std::string car_text(const Car& car, const std::map<std::string, std::string>& sources);

}  // namespace sparkpilot::sim
