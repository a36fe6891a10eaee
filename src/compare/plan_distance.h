// How far the plans of two driving models lie apart, from their outputs alone.
#pragma once

#include <filesystem>
#include <optional>

#include "route/contract/outputs.h"
#include "sparkpilot/session.h"

namespace sparkpilot::compare {

class PlanDistance {
 public:
  // Fails (user) naming the file if its metadata do not say where in its one output a plan is.
  explicit PlanDistance(const std::filesystem::path& file);

  // Metres between the plans' positions on the road (x and y) after 1, 2, 4 or 6 s, wherever they are furthest apart;
  // infinite where one is not a number. Of the last runs of sessions of this file, with the same inputs.
  double operator()(const Session& got, const Session& expected) const;

 private:
  std::optional<drive::OutputParser> parser_;
};

}  // namespace sparkpilot::compare
