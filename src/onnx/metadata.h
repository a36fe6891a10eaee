// openpilot's model metadata: which part of the flat output is which head.
//
// It is a dictionary name -> slice, kept in the model's metadata_props as `output_slices`: base64 of a Python pickle.
// openpilot's build also writes it, with the shapes, to a pickle beside the model (`*_metadata.pkl`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// Python's slice(start, stop, step).
struct OutputSlice {
  std::optional<int64_t> start, stop, step;

  // The elements it selects of `length`, as [begin, end); fails (user) on a step other than 1.
  std::pair<int64_t, int64_t> resolve(int64_t length) const;
  bool operator==(const OutputSlice&) const = default;
};

using OutputSlices = std::vector<std::pair<std::string, OutputSlice>>;  // in the order of the dictionary

inline constexpr std::string_view kOutputSlicesKey = "output_slices";

// The slices of a model; empty where it has none. Fails (user) where they cannot be read.
OutputSlices output_slices(const Graph& graph);
// The metadata entry's text and back.
OutputSlices parse_output_slices(std::string_view base64);
std::string write_output_slices(const OutputSlices& slices);

// The contents of a `*_metadata.pkl`.
struct ModelMetadata {
  std::string checkpoint;  // empty where absent
  OutputSlices slices;
  std::vector<std::pair<std::string, std::vector<int64_t>>> input_shapes, output_shapes;
};
ModelMetadata parse_metadata_pickle(std::span<const std::byte> bytes);

}  // namespace sparkpilot
