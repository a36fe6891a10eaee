#include "cli/bench_repeats.h"

#include <sys/prctl.h>

#include <csignal>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "bench/ready_session.h"
#include "cli/command.h"
#include "cli/run_again.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

// The last line that a process wrote, without the program's name in front.
std::string complaint_of(const ChildResult& child) {
  std::string text = child.err.substr(0, child.err.find_last_not_of('\n') + 1);
  text = text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
  const std::string prefix = "sparkpilot bench: ";
  if (text.starts_with(prefix)) text = text.substr(prefix.size());
  return text.empty() ? fmt::format("exit code {}", child.code) : text;
}

}  // namespace

std::vector<Repeat> measure_repeats(size_t variant, const Measured& model, size_t count,
                                    const std::function<void()>& done) {
  const ModelBench& bench = model.bench;
  Json choices = Json::array();
  for (const KernelDecision& choice : bench.choices) choices.push_back({choice.node, choice.kernel});
  const Json request{
      {"device", model.options.session.device}, {"threads", bench.threads}, {"choices", std::move(choices)}};
  std::vector<Repeat> repeats;
  while (repeats.size() < count) {
    const ChildResult child = run_again({"--as-repeat", std::to_string(variant)}, json_text(request));
    if (child.code != kDone)
      fail("{}: a process that repeats the measurement failed: {}", bench.file, complaint_of(child));
    const Json answer = parse_json_or_discard(child.out);
    if (answer.is_discarded()) fail_internal("{}: a process that repeats the measurement wrote no JSON", bench.file);
    repeats.push_back(repeat_from(answer, bench.file));
    done();
  }
  return repeats;
}

int answer_repeat(const std::vector<BenchVariant>& variants, int64_t variant) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody reads the answer then
  if (variant < 0 || variant >= std::ssize(variants)) {
    fail("--as-repeat: expected 0 to {}, got {}", variants.size() - 1, variant);
  }
  const Json request = parse_json_or_discard(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  if (!request.is_object() || !request.contains("device") || !request.contains("threads") ||
      !request.contains("choices")) {
    fail("--as-repeat is for processes that bench itself starts: their stdin says which device, threads and kernels");
  }
  BenchVariant one = variants[static_cast<size_t>(variant)];
  one.options.session.device = request["device"].get<std::string>();
  std::vector<KernelDecision> choices;
  for (const Json& choice : request["choices"]) {
    choices.push_back({.node = choice.at(0).get<std::string>(), .kernel = choice.at(1).get<std::string>()});
  }
  Session session = ready_session(one.file, one.options, request["threads"].get<int>(), choices);
  print_json(to_json(measure_repeat(session)));
  return kDone;
}

}  // namespace sparkpilot::cli
