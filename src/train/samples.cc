#include "train/samples.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot::train {

size_t place_of(std::span<const Field> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  if (found == fields.end()) fail("the samples have no field \"{}\"", name);
  return static_cast<size_t>(found - fields.begin());
}

void read_entry(const Samples& samples, int64_t index, std::span<Tensor> batch, int64_t entry) {
  std::vector<std::byte*> to;
  for (Tensor& field : batch) {
    to.push_back(static_cast<std::byte*>(field.raw()) + entry * (field.bytes() / field.shape()[0]));
  }
  samples.read(index, to);
}

std::vector<Tensor> sample_of(const Samples& samples, int64_t index) {
  std::vector<Tensor> fields;
  std::vector<std::byte*> to;
  for (const Field& field : samples.fields()) {
    fields.emplace_back(field.dtype, field.shape);
    to.push_back(static_cast<std::byte*>(fields.back().raw()));
  }
  samples.read(index, to);
  return fields;
}

}  // namespace sparkpilot::train
