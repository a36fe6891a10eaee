// Default inputs for models: seeded, of a reasonable range.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/session.h"
#include "tensor/fill_random.h"

namespace sparkpilot {

// Gives shapes to inputs that still have open dimensions: the size of a dimension of the same name in another input,
// else `batch` for an open first dimension, 1 for the others. Returns a line for each of them, such as `input "x":
// [batch, 3, h] taken as [1,3,1]`.
std::vector<std::string> bind_open_dimensions(Session& session, int64_t batch = 1);

// How a session runs `batch` entries of a model: the value for SessionOptions::batch, which is 1 if an open first
// dimension takes the batch (bind_open_dimensions). Fails (user) if the sizes in the options do not fit, or if a batch
// other than 1 is impossible: the options leave no input's first dimension open, and the sizes are not all fixed with a
// first dimension of 1.
int64_t session_batch(Graph graph, const SessionOptions& options, int64_t batch);

}  // namespace sparkpilot
