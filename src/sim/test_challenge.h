// For tests: a route of the controls challenge made of integers, the same as bench/sim/tinyphysics_numpy.py makes, on
// which the goldens are.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace sparkpilot::sim {

inline std::string integer_route(uint32_t number, int rows = 520, int steer_to = 110) {
  uint32_t state = number;
  const auto draw = [&](int below) {
    state = (state * 1103515245U + 12345U) & 0x7fffffffU;
    return static_cast<int>(state / 65536U) % below;
  };
  const auto thousandths = [](int value) {
    return fmt::format("{}{}.{:03d}", value < 0 ? "-" : "", std::abs(value) / 1000, std::abs(value) % 1000);
  };
  // Python's division.
  const auto down = [](int a, int b) { return a / b - (a % b < 0 ? 1 : 0); };
  std::string text = "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n";
  int speed = 15000 + draw(15000), acceleration = 0, roll = 0, target = 0, goal = 0;
  for (int row = 0; row < rows; ++row) {
    if (row % 40 == 0) goal = draw(4000) - 2000;
    acceleration = std::clamp(acceleration + draw(401) - 200, -2000, 2000);
    speed = std::clamp(speed + down(acceleration + 5, 10), 1000, 40000);
    roll = std::clamp(roll + draw(9) - 4, -60, 60);
    target += down(goal - target, 16) + draw(21) - 10;
    const std::string steer = row < steer_to ? thousandths(down(target, 3) + draw(11)) : "";
    text += fmt::format("{}.{},{},{},{},{},{}\n", row / 10, row % 10, thousandths(speed), thousandths(acceleration),
                        thousandths(roll), thousandths(target), steer);
  }
  return text;
}

}  // namespace sparkpilot::sim
