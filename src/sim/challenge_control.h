// Controllers of comma's controls challenge, for many routes at once.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sparkpilot/error.h"

namespace sparkpilot::sim {

// What a controller sees of a route in a step.
struct ChallengeInput {
  double target = 0, current = 0;                  // m/s^2: lateral acceleration asked for, and the present one
  double roll_lataccel = 0, v_ego = 0, a_ego = 0;  // m/s^2, m/s, m/s^2
  // The next rows of the route: 49, fewer near its end.
  struct {
    std::span<const double> lataccel, roll_lataccel, v_ego, a_ego;
  } plan;
};

// Thrown by a controller that cannot go on with these routes, or not in time; after a reset it may with others.
class ControllerLost : public Error {
 public:
  explicit ControllerLost(const std::string& message) : Error(ErrorKind::user, message) {}
};

class ChallengeController {
 public:
  virtual ~ChallengeController() = default;
  // Begins that many routes anew.
  virtual void reset(size_t routes) = 0;
  // One step of 0.1 s of every route: an action each, positive to the right. A route's action depends on its own inputs
  // alone. Beyond +-2 it is clipped.
  virtual void update(std::span<const ChallengeInput> inputs, std::span<double> actions) = 0;
  // Why a route has no actions from the last update on; empty if it has.
  virtual std::string failure(size_t /*route*/) const { return {}; }
};

// Makes a controller; called for each thread.
using ChallengeControllerMaker = std::function<std::unique_ptr<ChallengeController>()>;

// The names of the controllers that are built in: pid and zero, as the challenge has them.
std::vector<std::string_view> challenge_controllers();
// The parameters of one, with the challenge's values.
std::vector<std::pair<std::string, double>> challenge_parameters(std::string_view controller);
// The controller with these parameters; those that are not given have the challenge's values. Fails (user) on names
// that do not exist and values that are not finite.
ChallengeControllerMaker challenge_controller(std::string_view controller,
                                              const std::vector<std::pair<std::string, double>>& parameters = {});

}  // namespace sparkpilot::sim
