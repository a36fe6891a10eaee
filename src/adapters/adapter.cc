#include "adapters/adapter.h"

#include <cmath>

#include "base/error.h"

namespace sparkpilot {

std::string_view name(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::lora: return "LoRA";
    case AdapterKind::rslora: return "rsLoRA";
    case AdapterKind::dora: return "DoRA";
  }
  return {};
}

double Adapter::scale(const AdapterLayer& layer) const {
  const auto rank = static_cast<double>(layer.rank());
  return layer.alpha / (kind == AdapterKind::rslora ? std::sqrt(rank) : rank);
}

int64_t Adapter::bytes() const {
  int64_t elements = 0;
  for (const AdapterLayer& layer : layers) elements += layer.elements();
  return storage_bytes(stored, elements);
}

std::vector<Layer> match_layers(const Graph& base, const Adapter& adapter) {
  if (const std::string found = base_fingerprint(base);
      !adapter.base_fingerprint.empty() && adapter.base_fingerprint != found) {
    fail("the adapter was made for another model{}: its base has the fingerprint {}, this one {}",
         adapter.base_name.empty() ? "" : fmt::format(" (\"{}\")", adapter.base_name), adapter.base_fingerprint, found);
  }
  std::map<std::string_view, const Layer*> by_path;
  const std::vector<Layer> layers = find_layers(base);
  for (const Layer& layer : layers) by_path[layer.path] = &layer;
  std::vector<Layer> out;
  for (const AdapterLayer& mine : adapter.layers) {
    const auto at = by_path.find(mine.path);
    if (at == by_path.end()) fail("the model has no layer \"{}\", which the adapter changes", mine.path);
    const Layer& layer = *at->second;
    if (!layer.cannot.empty()) fail("the layer \"{}\" takes no adapter: {}", mine.path, layer.cannot);
    const Shape& a = mine.a.shape();
    const Shape& b = mine.b.shape();
    const int64_t of_group = layer.conv ? mine.rank() / layer.groups : mine.rank();
    bool fits = a.rank() == layer.weight.rank() && b.rank() == a.rank() && b[0] == layer.out() && b[1] == of_group &&
                mine.rank() % layer.groups == 0;
    for (int axis = 1; fits && axis < a.rank(); ++axis) fits = a[axis] == layer.weight[axis];
    for (int axis = 2; fits && axis < b.rank(); ++axis) fits = b[axis] == 1;
    if (fits && mine.magnitude.present()) fits = mine.magnitude.elements() == layer.out();
    if (!fits) {
      fail("the adapter has A {} and B {} for \"{}\", whose weights are {}{}", a.str(), b.str(), mine.path,
           layer.weight.str(), layer.groups > 1 ? fmt::format(" in {} groups", layer.groups) : "");
    }
    out.push_back(layer);
  }
  return out;
}

}  // namespace sparkpilot
