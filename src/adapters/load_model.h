// A model with adapters merged into it while it is loaded: what every command takes in a file's place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// "FILE", or "FILE@ADAPTER" with the folder of an adapter, or "FILE@ADAPTER:0.5" with a scale for its change; several
// adapters follow one another. A file whose whole name exists is that file.
struct ModelName {
  struct Part {
    std::filesystem::path folder;
    double by = 1;
  };
  std::filesystem::path file;
  std::vector<Part> adapters;
};
// Fails (user) on a scale that is not finite.
ModelName parse_model_name(const std::filesystem::path& text);
// "ADAPTER" or "ADAPTER:0.5".
ModelName::Part parse_adapter_name(std::string_view text);
// The name of a model with one adapter more.
std::filesystem::path with_adapter(const std::filesystem::path& model, const ModelName::Part& adapter);

// The model, with its adapters merged (adapters/merge.h). `files`, if given, receives the paths of all that was read.
// Fails (user) as load_onnx(), load_adapter() and merge_adapters() do.
Graph load_model(const std::filesystem::path& text, std::vector<std::filesystem::path>* files = nullptr);

// Merges the adapters into a model that was read: those of this base are added up, one that was made for what those
// before it make is merged into that. Returns how many merges there were.
int merge_named(Graph& base, const std::vector<ModelName::Part>& adapters);

// The files that load_model() reads.
std::vector<std::filesystem::path> files_of(const ModelName& model);
// A hash of their bytes and of the scales: distinguishes models of the same name.
uint64_t model_hash(const std::filesystem::path& text);

}  // namespace sparkpilot
