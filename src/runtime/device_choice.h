// The choice of a device for a model: a GPU only where it has computed this model as the CPU does.
#pragma once

#include <memory>
#include <optional>

#include "ir/graph.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

class GpuDevice;

struct DeviceChoice {
  std::shared_ptr<GpuDevice> gpu = nullptr;  // null: the CPU
  std::optional<double> check_ms = {};       // of the self-check, without compiling; empty if none was made
  int64_t ptx_ns = 0;                        // the driver's, for what the check had it compile from PTX
};

// The GPU for `graph`, whose dimensions, outputs and batch are those of the options: the fastest, if every node of the
// model has a kernel for it and the self-check has passed there; else the CPU. Where there is a GPU, or a
// driver that does not answer, and the CPU is taken, `options.say` is told why.
//
// The self-check runs the words of device.cuh (ops/cuda/words_check.h), then the model twice on seeded inputs on the
// GPU and, in fp32, on the CPU; outputs and states must agree within a bound for the precision. Dimensions that are
// open are 1 there. What it finds is kept in `options.tuning_file` for this GPU, driver, program and model; a driver's
// error is not.
DeviceChoice choose_device(const Graph& graph, const SessionOptions& options);

}  // namespace sparkpilot
