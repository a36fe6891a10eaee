#include "sim/car_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/json.h"
#include "base/nearest.h"
#include "sim/csv.h"

namespace sparkpilot::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "sparkpilot car 1";
constexpr int64_t kLargestFile = 1 << 20;

struct Key {
  const char* name;
  double& (*of)(Car& car);
};
constexpr Key kKeys[] = {
    {"mass_kg", [](Car& c) -> double& { return c.vehicle.mass; }},
    {"inertia_kg_m2", [](Car& c) -> double& { return c.vehicle.inertia; }},
    {"wheelbase_m", [](Car& c) -> double& { return c.vehicle.wheelbase; }},
    {"center_to_front_m", [](Car& c) -> double& { return c.vehicle.center_to_front; }},
    {"stiffness_front_n_per_rad", [](Car& c) -> double& { return c.vehicle.stiffness_front; }},
    {"stiffness_rear_n_per_rad", [](Car& c) -> double& { return c.vehicle.stiffness_rear; }},
    {"steer_ratio", [](Car& c) -> double& { return c.vehicle.steer_ratio; }},
    {"steer_ratio_rear", [](Car& c) -> double& { return c.vehicle.steer_ratio_rear; }},
    {"drag_per_m", [](Car& c) -> double& { return c.vehicle.drag; }},
    {"rolling_m_per_s2", [](Car& c) -> double& { return c.vehicle.rolling; }},
    {"low_speed_m_per_s", [](Car& c) -> double& { return c.vehicle.low_speed; }},
    {"steering_delay_s", [](Car& c) -> double& { return c.steering.delay; }},
    {"steering_lag_s", [](Car& c) -> double& { return c.steering.lag; }},
    {"torque_rate_per_s", [](Car& c) -> double& { return c.steering.torque_rate; }},
    {"accel_factor_m_per_s2", [](Car& c) -> double& { return c.steering.accel_factor; }},
    {"friction", [](Car& c) -> double& { return c.steering.friction; }},
    {"angle_limit_deg", [](Car& c) -> double& { return c.steering.angle_limit; }},
    {"angle_rate_deg_per_s", [](Car& c) -> double& { return c.steering.angle_rate; }},
    {"drive_delay_s", [](Car& c) -> double& { return c.powertrain.delay; }},
    {"drive_lag_s", [](Car& c) -> double& { return c.powertrain.lag; }},
    {"drive_compensated", [](Car& c) -> double& { return c.powertrain.compensated; }},
};

std::vector<std::string> key_names() {
  std::vector<std::string> names{"format", "name", "base", "sources"};
  for (const Key& key : kKeys) names.emplace_back(key.name);
  return names;
}

// What may be meant by a key that there is not: mass_kg by "mass", though "base" has letters more like it.
std::string meant_by(const std::string& word) {
  for (const Key& key : kKeys) {
    if (std::string_view(key.name).starts_with(word + "_")) return fmt::format(" (did you mean {}?)", key.name);
  }
  return did_you_mean(word, key_names());
}

const std::string& text_at(const Json& json, const std::string& key, const std::string& name) {
  if (!json.is_string() || json.get_ref<const std::string&>().size() > 200) {
    fail("{}: \"{}\": expected a text of at most 200 bytes", name, key);
  }
  return json.get_ref<const std::string&>();
}

void check_sources(const Json& json, const std::string& name) {
  if (!json.is_object()) fail("{}: \"sources\": expected an object of texts", name);
  for (const auto& [key, value] : json.items()) text_at(value, "sources", name);
}

Json json_of(const std::string& text, const std::string& name) {
  try {
    std::string twice;
    auto json = parse_bounded(text, &twice);
    if (!json) fail("{}: nested too deeply", name);
    if (!twice.empty()) fail("{}: \"{}\" is there twice", name, twice.substr(0, 60));
    if (!json->is_object()) fail("{}: expected a JSON object of a car's numbers", name);
    return std::move(*json);
  } catch (const nlohmann::json::exception&) {
    fail("{}: is not JSON, expected an object of a car's numbers", name);
  }
}

}  // namespace

Car parse_car(const std::string& text, const std::string& name) {
  const Json json = json_of(text, name);
  if (!json.contains("format") || json["format"] != kFormat) {
    fail("{}: expected \"format\": \"{}\"", name, kFormat);
  }
  Car car;
  if (json.contains("base")) {
    const std::string base = text_at(json["base"], "base", name);
    try {
      car.vehicle = preset_vehicle(base);
    } catch (const Error& error) {
      fail("{}: \"base\": {}", name, error.what());
    }
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "format" || key == "base") continue;
    if (key == "name") {
      text_at(value, key, name);
    } else if (key == "sources") {
      check_sources(value, name);
    } else {
      const auto* known =
          std::find_if(std::begin(kKeys), std::end(kKeys), [&key = key](const Key& k) { return key == k.name; });
      if (known == std::end(kKeys)) {
        fail("{}: \"{}\" is not a number of a car{}", name, key.substr(0, 60), meant_by(key.substr(0, 60)));
      }
      if (!value.is_number() || !std::isfinite(value.get<double>())) fail("{}: \"{}\": expected a number", name, key);
      known->of(car) = value.get<double>();
    }
  }
  WorldSpec world;
  world.vehicle = car.vehicle;
  world.steering = car.steering;
  world.powertrain = car.powertrain;
  try {
    check_world(world);
  } catch (const Error& error) {
    fail("{}: {}", name, error.what());
  }
  car.name = fmt::format("{}:{:08x}", valid_utf8(std::filesystem::path(name).stem().string()),
                         Fnv().text(text).value() & 0xffffffff);
  return car;
}

Car read_car(const std::filesystem::path& file) { return parse_car(read_file(file, kLargestFile), file.string()); }

bool is_car_file(std::string_view name) { return name.find('/') != name.npos || name.ends_with(".json"); }

Car find_car(std::string_view name) {
  if (is_car_file(name)) return read_car(std::string(name));
  return {std::string(name), preset_vehicle(name)};
}

std::string car_text(const Car& car, const std::map<std::string, std::string>& sources) {
  Car copy = car;
  Json json = {{"format", kFormat}, {"name", car.name}};
  for (const Key& key : kKeys) json[key.name] = key.of(copy);
  if (!sources.empty()) json["sources"] = sources;
  return json_text(json, 2) + "\n";
}

}  // namespace sparkpilot::sim
