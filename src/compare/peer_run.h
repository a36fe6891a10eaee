// A peer as one side of a comparison: it runs a variant's file on samples.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/peer.h"
#include "compare/bisect.h"
#include "compare/variant.h"

namespace sparkpilot::compare {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Everything fails (user) with the peer's name if the peer fails, and with the file's if the samples do not fit it.
class PeerRun {
 public:
  // Starts the variant's peer and loads its file with the shapes of the samples, which must outlive it. `threads`: if
  // the variant leaves the number open. `outputs`: values of the file to compute; empty: its outputs.
  PeerRun(const Variant& variant, const Samples& samples, int threads, const PeerOptions& options);
  void load(const std::vector<std::string>& outputs = {});

  const std::string& engine() const { return peer_.engine(); }
  const PeerLoaded& loaded() const { return loaded_; }
  void set_sample(size_t i);
  std::vector<double> run(int64_t count) { return peer_.run(count); }  // ms of each
  NamedTensors outputs() { return peer_.outputs(); }

 private:
  struct Input {
    std::string name;
    DType dtype = DType::none;
    std::optional<Shape> shape;
    bool open = false;  // in the file
  };

  Variant variant_;
  const Samples& samples_;
  std::vector<Input> inputs_;  // of the file
  Peer peer_;
  PeerLoad request_;
  PeerLoaded loaded_;
};

// The peer of the variant as a side of a bisection, on samples that must outlive it. Each run loads the file again,
// with the values that are kept as its outputs.
Side peer_side_of(const Variant& variant, const Samples& samples, int threads, const PeerOptions& options);

}  // namespace sparkpilot::compare
