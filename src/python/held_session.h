// A session as Python holds it: used by one thread at a time, with arrays on its memory that must not outlive it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "python/arrays.h"
#include "sparkpilot/session.h"

namespace sparkpilot::python {

class HeldSession : public std::enable_shared_from_this<HeldSession> {
 public:
  HeldSession(Graph graph, SessionOptions options)
      : undeclared_(without_shapes(graph)), session_(std::move(graph), std::move(options)) {}

  // Every call below fails (user) while another one runs: `run` lets other threads of Python go on meanwhile.
  //
  // Arrays on the memory of inputs, outputs and states. While one of an input or of an output lives, shapes cannot
  // change. An output whose shape depends on data, or of a model in which any value's does, is a copy, as its memory is
  // the next run's.
  py::array input(const std::string& name);
  py::array output(const std::string& name);
  py::array state(const std::string& name);
  py::array input_bits(const std::string& name);
  py::array output_bits(const std::string& name);

  void set_shape(const std::string& name, const Shape& shape);
  void compile();
  void run();
  // Copies the arrays in, runs, and copies all outputs.
  py::dict call(const py::dict& arrays);
  void reset_states();
  // The values of SessionOptions::keep by name, copied; channels are axis 1, as in the file.
  py::dict values();
  py::list profile();

  // Names of inputs and outputs of which the model says no shape.
  const std::set<std::string>& undeclared() const { return undeclared_; }

  // What `look` returns of the session.
  template <typename Look>
  auto with(const Look& look) {
    const Use use(*this);
    return look(session_);
  }

 private:
  // While one lives, another cannot be made.
  class Use {
   public:
    explicit Use(HeldSession& of) : of_(of) {
      if (of_.used_.exchange(true)) fail("the session is in use by another call: each thread needs its own");
    }
    ~Use() { of_.used_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    HeldSession& of_;
  };
  static std::set<std::string> without_shapes(const Graph& graph);
  // What keeps an array's memory: this session, and a count that grows while the array lives.
  py::object keeper(int* count);
  size_t index_of_input(const std::string& name);  // fails (user) if absent
  void take_shape(const std::string& name, const Shape& shape);
  void set_input(const std::string& name, const py::object& value);
  bool memory_moves();

  std::set<std::string> undeclared_;
  Session session_;
  std::atomic<bool> used_ = false;
  int held_outputs_ = 0, held_states_ = 0;
  std::vector<int> held_inputs_ = std::vector<int>(session_.inputs().size());
  std::optional<bool> moves_;  // whether outputs may lie elsewhere after the next run; empty: not looked up yet
};

}  // namespace sparkpilot::python
