#include "adapters/load_model.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "adapters/merge.h"
#include "base/error.h"
#include "onnx/import.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;

// "DIR" or "DIR:0.5"; a folder of that whole name is that folder.
ModelName::Part parse_part(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::error_code none;
  if (colon == std::string_view::npos || fs::is_directory(fs::path(text), none)) return {.folder = text};
  const std::string_view number = text.substr(colon + 1);
  double by = 0;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), by);
  if (error != std::errc() || stop != number.data() + number.size()) return {.folder = text};
  if (!std::isfinite(by)) fail("\"{}\": the scale of an adapter must be finite", text);
  return {.folder = text.substr(0, colon), .by = by};
}

}  // namespace

ModelName parse_model_name(const fs::path& text) {
  std::error_code none;
  if (fs::exists(text, none)) return {.file = text, .adapters = {}};
  const std::string whole = text.string();
  std::string_view rest = whole;
  size_t at = rest.find('@');
  ModelName out{.file = rest.substr(0, at), .adapters = {}};
  while (at != std::string_view::npos) {
    rest.remove_prefix(at + 1);
    at = rest.find('@');
    out.adapters.push_back(parse_part(rest.substr(0, at)));
  }
  return out;
}

fs::path with_adapter(const fs::path& model, const std::string& adapter) { return model.string() + "@" + adapter; }

Graph load_model(const fs::path& text, std::vector<fs::path>* files) {
  const ModelName model = parse_model_name(text);
  std::vector<fs::path> read;
  Graph graph = load_onnx(model.file, read);
  std::vector<Adapter> adapters;
  for (const ModelName::Part& part : model.adapters) {
    adapters.push_back(load_adapter(part.folder));
    for (const fs::path& file : adapter_files(part.folder)) read.push_back(file);
  }
  std::vector<ScaledAdapter> scaled;
  for (size_t i = 0; i < adapters.size(); ++i) scaled.push_back({&adapters[i], model.adapters[i].by});
  if (!scaled.empty()) merge_adapters(graph, scaled);
  if (files) *files = std::move(read);
  return graph;
}

std::vector<fs::path> files_of(const ModelName& model) {
  std::vector<fs::path> out{model.file};
  for (const ModelName::Part& part : model.adapters) {
    for (const fs::path& file : adapter_files(part.folder)) out.push_back(file);
  }
  return out;
}

}  // namespace sparkpilot
