#include "bench/ready_session.h"

#include <optional>

#include "adapters/load_model.h"
#include "base/with_file.h"
#include "bench/inputs.h"

namespace sparkpilot {

std::vector<std::string> make_ready(Session& session, const BenchOptions& options) {
  std::vector<std::string> notes = bind_open_dimensions(session, options.batch);
  for (const TensorInfo& input : session.inputs()) fill_random(session.input(input.name), input.name, options.seed);
  return notes;
}

SessionOptions settled_options(const BenchOptions& options, int threads, const std::vector<KernelDecision>& choices) {
  SessionOptions out = options.session;
  out.threads = threads;
  out.choices = choices;
  out.tune = Tune::off;
  return out;
}

Session ready_session(const std::filesystem::path& file, const BenchOptions& options, int threads,
                      const std::vector<KernelDecision>& choices) {
  std::optional<Session> session;
  with_file(file, [&] {
    SessionOptions settled = settled_options(options, threads, choices);
    Graph graph = load_model(file);
    if (options.batch != 1) settled.batch = session_batch(graph, options.session, options.batch);
    session.emplace(std::move(graph), settled);
    bind_open_dimensions(*session, options.batch);
    session->compile();  // before inputs have memory: it says first whether there is enough
    make_ready(*session, options);
  });
  return std::move(*session);
}

}  // namespace sparkpilot
