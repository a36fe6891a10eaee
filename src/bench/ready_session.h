// Sessions as `bench` runs them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/model_bench.h"
#include "runtime/session.h"

namespace sparkpilot {

// Binds open dimensions and fills the inputs with seeded random values; returns a line for each assumption.
std::vector<std::string> make_ready(Session& session, const BenchOptions& options);

// The options of a session that has these threads and kernels, and times none again.
SessionOptions settled_options(const BenchOptions& options, int threads, const std::vector<KernelDecision>& choices);

// Such a session of a model, compiled, its inputs filled. Fails (user) with the file in the message.
Session ready_session(const std::filesystem::path& file, const BenchOptions& options, int threads,
                      const std::vector<KernelDecision>& choices);

}  // namespace sparkpilot
