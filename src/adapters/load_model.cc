#include "adapters/load_model.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "adapters/merge.h"
#include "base/error.h"
#include "base/file_hash.h"
#include "onnx/external_files.h"
#include "onnx/import.h"

namespace sparkpilot {
namespace fs = std::filesystem;

ModelName::Part parse_adapter_name(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::error_code none;  // a folder of that whole name is that folder
  if (colon == std::string_view::npos || fs::is_directory(fs::path(text), none)) return {.folder = text};
  const std::string_view number = text.substr(colon + 1);
  double by = 0;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), by);
  if (error != std::errc() || stop != number.data() + number.size()) return {.folder = text};
  if (!std::isfinite(by)) fail("\"{}\": the scale of an adapter must be finite", text);
  return {.folder = text.substr(0, colon), .by = by};
}

namespace {

// Where a name ends: at its end or at the last '@' with something of that name before it; without any, at the first
// '@'.
template <typename Exists>
size_t end_of_name(std::string_view text, const Exists& exists) {
  if (exists(text)) return std::string_view::npos;
  for (size_t at = text.rfind('@'); at != std::string_view::npos && at > 0; at = text.rfind('@', at - 1)) {
    if (exists(text.substr(0, at))) return at;
  }
  return text.find('@');
}

}  // namespace

ModelName parse_model_name(const fs::path& text) {
  const auto exists = [](const fs::path& path) {
    std::error_code none;
    return fs::exists(path, none);
  };
  if (exists(text)) return {.file = text, .adapters = {}};
  const std::string whole = text.string();
  std::string_view rest = whole;
  size_t at = end_of_name(rest, exists);
  ModelName out{.file = rest.substr(0, at), .adapters = {}};
  while (at != std::string_view::npos) {
    rest.remove_prefix(at + 1);
    at = end_of_name(rest, [&](std::string_view name) { return exists(parse_adapter_name(name).folder); });
    out.adapters.push_back(parse_adapter_name(rest.substr(0, at)));
  }
  return out;
}

fs::path with_adapter(const fs::path& model, const ModelName::Part& adapter) {
  std::string text = fmt::format("{}@{}", model.string(), adapter.folder.string());
  if (adapter.by != 1) text += fmt::format(":{}", adapter.by);
  return text;
}

int merge_named(Graph& base, const std::vector<ModelName::Part>& parts) {
  std::vector<Adapter> adapters;
  for (const ModelName::Part& part : parts) adapters.push_back(load_adapter(part.folder));
  std::vector<ScaledAdapter> together;
  int merges = 0;
  const auto merge = [&] {
    if (together.empty()) return;
    merge_adapters(base, together);
    together.clear();
    ++merges;
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& wanted = adapters[i].base_fingerprint;
    // Another base can only be what those before it make.
    if (!together.empty() && !wanted.empty() && wanted != base_fingerprint(base)) merge();
    together.push_back({&adapters[i], parts[i].by});
  }
  merge();
  return merges;
}

Graph load_model(const fs::path& text, std::vector<fs::path>* files) {
  const ModelName model = parse_model_name(text);
  std::vector<fs::path> read;
  Graph graph = load_onnx(model.file, read);
  merge_named(graph, model.adapters);
  for (const ModelName::Part& part : model.adapters) {
    for (const fs::path& file : adapter_files(part.folder)) read.push_back(file);
  }
  if (files) *files = std::move(read);
  return graph;
}

std::vector<fs::path> files_of(const ModelName& model) {
  std::vector<fs::path> out{model.file};
  for (fs::path& file : external_files(model.file)) out.push_back(std::move(file));
  for (const ModelName::Part& part : model.adapters) {
    for (const fs::path& file : adapter_files(part.folder)) out.push_back(file);
  }
  return out;
}

uint64_t model_hash(const fs::path& text) {
  const ModelName model = parse_model_name(text);
  Fnv hash;
  for (const fs::path& file : files_of(model)) add_file(hash, file);
  for (const ModelName::Part& part : model.adapters) hash.bytes(&part.by, sizeof part.by);
  return hash.value();
}

}  // namespace sparkpilot
