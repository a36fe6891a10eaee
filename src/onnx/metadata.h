// openpilot's model metadata: the text of the slices (sparkpilot/onnx.h), and the pickle that openpilot's build writes
// next to the model, which has the shapes too (`*_metadata.pkl`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sparkpilot/onnx.h"

namespace sparkpilot {

inline constexpr std::string_view kOutputSlicesKey = "output_slices";

// The metadata entry's text and back.
OutputSlices parse_output_slices(std::string_view base64);
std::string write_output_slices(const OutputSlices& slices);
// For a flat output of `length` elements of which only [begin, end) remains: the slices that lie entirely in it, at
// their new positions. Those with a step are omitted.
OutputSlices slices_within(const OutputSlices& slices, int64_t length, int64_t begin, int64_t end);

// The contents of a `*_metadata.pkl`.
struct ModelMetadata {
  std::string checkpoint;  // empty if absent
  OutputSlices slices;
  std::vector<std::pair<std::string, std::vector<int64_t>>> input_shapes, output_shapes;
};
ModelMetadata parse_metadata_pickle(std::span<const std::byte> bytes);

}  // namespace sparkpilot
