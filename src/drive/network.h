// One network of a driving model: its session, its inputs by the names of any era, its parsed output.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "route/contract/outputs.h"
#include "sparkpilot/session.h"

namespace sparkpilot::drive {

class Network {
 public:
  // Changes the graph that was read (ModelFiles::rewrite); may be empty.
  using Rewrite = std::function<Graph(Graph graph, const std::filesystem::path& file)>;

  // Loads and compiles; open dimensions become 1. Fails (user) if the model has no output_slices.
  Network(const std::filesystem::path& file, const SessionOptions& options, const Rewrite& rewrite = {});

  // The first of `names` that is an input, or null.
  const TensorInfo* find(std::initializer_list<const char*> names) const;
  // The inputs as a line of text, for messages.
  std::string input_list() const;
  const std::string& file() const { return file_; }
  const std::string& checkpoint() const { return checkpoint_; }
  const OutputSlices& slices() const { return slices_; }
  const OutputParser& parser() const { return *parser_; }
  int64_t width() const { return width_; }  // of the flat output
  Session& session() { return session_; }

  // Writes `values` into an input of any float or integer type; one for each of its elements.
  void set(const TensorInfo& input, std::span<const float> values);
  // Bytes into an image input: as they are, or as numbers if it takes floats.
  void set(const TensorInfo& input, std::span<const uint8_t> values);
  // Runs and returns the flat output as floats; valid until the next run.
  std::span<const float> run();

 private:
  std::string file_, checkpoint_;
  OutputSlices slices_;
  Session session_;
  std::optional<OutputParser> parser_;
  int64_t width_ = 0;
  std::vector<float> converted_;
};

}  // namespace sparkpilot::drive
