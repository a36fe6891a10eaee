// Routes of comma's controls challenge: CSV files of 10 rows a second with the columns vEgo (m/s), aEgo (m/s^2), roll
// (rad), targetLateralAcceleration (m/s^2) and steerCommand (positive to the left). A column t (s) is checked where
// there is one, others are ignored. docs/simulation.md describes what is accepted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::sim {

inline constexpr int64_t kChallengeStart = 100;  // the row from which a controller steers

// One value a row, of the rows that a rollout can see (kChallengeRows at most).
struct ChallengeRoute {
  std::vector<double> roll_lataccel;  // m/s^2: sin(roll) times 9.81
  std::vector<double> v_ego, a_ego;   // m/s, m/s^2
  std::vector<double> target;         // m/s^2
  std::vector<double> steer;  // positive to the right; NaN where the file has none, never before kChallengeStart

  int64_t rows() const { return static_cast<int64_t>(target.size()); }
};

// Fails (user) naming the file, the line and the column: columns that are missing or there twice, values that are no
// numbers, not finite, or not plausible in the column's unit, times that do not ascend or not by 0.1 s, fewer rows than
// a cost needs (kChallengeStart + 2).
ChallengeRoute load_challenge_route(const std::filesystem::path& path);
// The same for a text; `name` stands for the file in messages.
ChallengeRoute parse_challenge_route(std::string_view text, const std::string& name);

}  // namespace sparkpilot::sim
