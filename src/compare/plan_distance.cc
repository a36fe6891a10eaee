#include "compare/plan_distance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "adapters/load_model.h"
#include "base/error.h"
#include "bench/samples.h"
#include "route/contract/action.h"
#include "route/frame_result.h"

namespace sparkpilot::compare {

PlanDistance::PlanDistance(const std::filesystem::path& file) {
  const Graph graph = load_model(file);
  OutputSlices slices = output_slices(graph);
  std::erase_if(slices, [](const auto& slice) { return slice.first != "plan"; });
  if (graph.outputs().size() != 1 || slices.empty()) {
    fail(
        "{}: it has no plan whose error could be measured in metres: of a driving model, only the network that plans "
        "has",
        file.string());
  }
  int64_t width = 1;
  for (const Dim& dim : graph.value(graph.outputs()[0].value).declared.value_or(std::vector<Dim>{})) width *= dim.size;
  parser_.emplace(slices, width, file.string());
}

double PlanDistance::operator()(const Session& got, const Session& expected) const {
  const auto planned = [&](const Session& session) {
    const Tensor values = convert(copy_of(session.output(session.outputs()[0].name)), DType::f32);
    auto outputs = std::make_unique<drive::ModelOutputs>();
    parser_->parse(values.data<float>(), *outputs);
    return outputs;
  };
  const auto a = planned(got), b = planned(expected);
  double furthest = 0;
  for (const double seconds : drive::kHorizonSeconds) {
    const auto apart = [&](int column) {
      return drive::interpolate_plan(*a, column, seconds) - drive::interpolate_plan(*b, column, seconds);
    };
    const double distance = std::hypot(apart(drive::kPosition), apart(drive::kPosition + 1));
    if (!std::isfinite(distance)) return std::numeric_limits<double>::infinity();
    furthest = std::max(furthest, distance);
  }
  return furthest;
}

}  // namespace sparkpilot::compare
