// conformance: runs ONNX's backend test cases and says which pass, which are skipped and why, and which fail.
//
//   conformance --cases DIR [--engine session|interpret|export] [--filter SUBSTR] [--kernel NAME] [--least N]
//               [--all | --json | --markdown]
//
// A case is a folder with model.onnx and test_data_set_*/{input,output}_N.pb. It is skipped only when the model holds
// what sparkpilot refuses by design (sequences, strings, an op outside of the table); a wrong answer or any other
// error is a failure. Tolerances are ONNX's own. Exit code 4 where a case failed, or fewer than N cases of the suite
// `node` passed. docs/conformance.md is the output of --markdown.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ir/interpret.h"
#include "ir/op.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/tensor_proto.h"
#include "runtime/session.h"

namespace fs = std::filesystem;

namespace sparkpilot {
namespace {

// ONNX's runner: assert_allclose with these, bf16 within two units in the last place.
constexpr double kRelative = 1e-3, kAbsolute = 1e-7, kRelativeBf16 = 0x1p-6;

// Cases whose expected data cannot be met, and why.
struct Exception {
  std::string_view name;  // of the case, without its suite
  double absolute;        // compared at this tolerance instead; 0: skipped
  std::string_view reason;
};
constexpr std::string_view kRandom = "the expected values are those of NumPy's random generator";
constexpr std::string_view kNoisy = "the expected zeros are off by 2e-7: NumPy computed them in single precision";
constexpr Exception kExceptions[] = {
    {"test_bernoulli", 0, kRandom},
    {"test_bernoulli_expanded", 0, kRandom},
    {"test_bernoulli_double", 0, kRandom},
    {"test_bernoulli_double_expanded", 0, kRandom},
    {"test_bernoulli_seed", 0, kRandom},
    {"test_bernoulli_seed_expanded", 0, kRandom},
    {"test_training_dropout", 0, kRandom},
    {"test_training_dropout_mask", 0, kRandom},
    {"test_training_dropout_default", 0, kRandom},
    {"test_training_dropout_default_mask", 0, kRandom},
    {"test_dft_inverse", 1e-6, kNoisy},
    {"test_dft_inverse_opset19", 1e-6, kNoisy},
};

const Exception* exception_of(const std::string& name) {
  const std::string_view plain = std::string_view(name).substr(name.find('/') + 1);
  for (const Exception& exception : kExceptions) {
    if (plain == exception.name) return &exception;
  }
  return nullptr;
}

// For the signal handler: the case that is running.
char running_case[512];

void on_crash(int signal) {
  const char text[] = "\ncrashed in case ";
  [[maybe_unused]] ssize_t put = ::write(2, text, sizeof text - 1);
  put = ::write(2, running_case, std::strlen(running_case));
  put = ::write(2, "\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct Outcome {
  enum Kind { passed, skipped, failed } kind = passed;
  std::string name, reason;
};

// Empty where the tensors agree.
std::string difference(const Tensor& got, const Tensor& expected, double absolute) {
  if (got.dtype() != expected.dtype() || !(got.shape() == expected.shape())) {
    return fmt::format("is {}{}, expected {}{}", name(got.dtype()), got.shape().str(), name(expected.dtype()),
                       expected.shape().str());
  }
  const double relative = expected.dtype() == DType::bf16 ? kRelativeBf16 : kRelative;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = load_element(got.dtype(), got.raw(), i), b = load_element(expected.dtype(), expected.raw(), i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::abs(a - b) <= absolute + relative * std::abs(b)) || std::isinf(a) || std::isinf(b)) {
      return fmt::format("element {} is {:.9g}, expected {:.9g}", i, a, b);
    }
  }
  return {};
}

std::vector<std::pair<std::string, Tensor>> load_tensors(const fs::path& folder, const char* stem) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", stem, i);
    if (!fs::exists(path)) return out;
    std::string name;
    Tensor tensor = load_tensor_proto(path, &name);
    out.emplace_back(std::move(name), std::move(tensor));
  }
}

struct Engine {
  // session: the runtime with all its passes; interpret: the interpreter; export: the interpreter on the model written
  // and read again.
  std::string name = "session";
  std::string kernel;  // the candidate to use where an op has it
  fs::path written;    // export: the folder for the models
};

std::vector<Tensor> run_session(const Graph& graph, const std::vector<Tensor>& inputs, const Engine& engine) {
  // The cases ask for what each dtype gives, so nothing is widened. They are small: threads would only wait for each
  // other.
  Session session(graph, {.threads = 1, .passes = {.precision = Precision::model}, .kernels = engine.kernel});
  for (size_t i = 0; i < inputs.size(); ++i) {
    session.set_input(graph.value(graph.inputs()[i]).name, inputs[i].view());
  }
  session.run();
  std::vector<Tensor> outputs;
  for (const Graph::Output& output : graph.outputs()) {
    const ConstView view = session.output(output.name);
    outputs.emplace_back(view.dtype, view.shape);
    std::copy_n(static_cast<const std::byte*>(view.data), view.bytes(), static_cast<std::byte*>(outputs.back().raw()));
  }
  return outputs;
}

std::string run_data_set(const Graph& graph, const fs::path& folder, const Engine& engine, double absolute) {
  const auto given = load_tensors(folder, "input"), expected = load_tensors(folder, "output");
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const std::string& wanted = graph.value(graph.inputs()[i]).name;
    const auto named = std::find_if(given.begin(), given.end(), [&](const auto& one) { return one.first == wanted; });
    if (named != given.end()) inputs.push_back(named->second);
    else if (i < given.size()) inputs.push_back(given[i].second);
    else return fmt::format("no data for input \"{}\"", wanted);
  }
  const std::vector<Tensor> got =
      engine.name == "session" ? run_session(graph, inputs, engine) : interpret(graph, inputs, nullptr, engine.kernel);
  if (got.size() != expected.size()) return fmt::format("{} outputs, expected {}", got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string text = difference(got[i], expected[i].second, absolute);
    if (!text.empty()) return fmt::format("output \"{}\" {}", graph.outputs()[i].name, text);
  }
  return {};
}

Outcome run_case(const fs::path& folder, const std::string& name, const Engine& engine) {
  Outcome outcome{Outcome::passed, name, {}};
  std::snprintf(running_case, sizeof running_case, "%s", name.c_str());
  const Exception* exception = exception_of(name);
  try {
    Graph graph = load_onnx(folder / "model.onnx");
    if (exception && exception->absolute == 0) throw Unsupported(std::string(exception->reason));
    if (engine.name == "export") {
      std::string file = name + ".onnx";
      std::replace(file.begin(), file.end(), '/', '-');
      save_onnx(graph, engine.written / file);
      graph = load_onnx(engine.written / file);
    }
    bool any = false;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      any = true;
      outcome.reason = run_data_set(graph, entry.path(), engine, exception ? exception->absolute : kAbsolute);
      if (!outcome.reason.empty()) break;
    }
    if (!any) outcome.reason = "has no data";
    if (!outcome.reason.empty()) outcome.kind = Outcome::failed;
  } catch (const Unsupported& error) {
    outcome.kind = Outcome::skipped;
    outcome.reason = error.what();
  } catch (const std::exception& error) {
    outcome.kind = Outcome::failed;
    outcome.reason = error.what();
  }
  // The file is known from the case's name.
  const std::string prefix = (folder / "model.onnx").string() + ": ";
  if (outcome.reason.starts_with(prefix)) outcome.reason.erase(0, prefix.size());
  return outcome;
}

std::vector<fs::path> find_cases(const fs::path& root) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "model.onnx") out.push_back(entry.path().parent_path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void print_text(const std::vector<Outcome>& outcomes, bool all, double seconds) {
  constexpr const char* kWords[] = {"pass", "skip", "FAIL"};
  int counts[3] = {};
  for (const Outcome& outcome : outcomes) {
    ++counts[outcome.kind];
    if (all || outcome.kind == Outcome::failed) {
      fmt::print("{} {}{}{}\n", kWords[outcome.kind], outcome.name, outcome.reason.empty() ? "" : ": ", outcome.reason);
    }
  }
  fmt::print("{} cases: {} passed, {} skipped, {} failed in {:.1f} s\n", outcomes.size(), counts[0], counts[1],
             counts[2], seconds);
}

void print_json(const std::vector<Outcome>& outcomes) {
  constexpr const char* kWords[] = {"passed", "skipped", "failed"};
  nlohmann::json document{{"passed", 0}, {"skipped", 0}, {"failed", 0}, {"cases", nlohmann::json::array()}};
  for (const Outcome& outcome : outcomes) {
    document[kWords[outcome.kind]] = document[kWords[outcome.kind]].get<int>() + 1;
    document["cases"].push_back(
        {{"name", outcome.name}, {"outcome", kWords[outcome.kind]}, {"reason", outcome.reason}});
  }
  fmt::print("{}\n", document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// "node" of "node/test_abs".
std::string suite_of(const std::string& name) { return name.substr(0, name.find('/')); }

// A reason without the names of one case: `op Foo is not known (node "x")` and the input's name in front.
std::string general_reason(std::string reason) {
  const size_t node = reason.find(" (node \"");
  if (node != std::string::npos) reason.resize(node);
  const size_t colon = reason.find(": ");
  return colon == std::string::npos ? reason : reason.substr(colon + 2);
}

void print_markdown(const std::vector<Outcome>& outcomes) {
  std::map<std::string, std::array<int, 3>> suites;
  std::map<std::string, std::vector<std::string>> reasons;
  for (const Outcome& outcome : outcomes) {
    ++suites[suite_of(outcome.name)][outcome.kind];
    if (outcome.kind == Outcome::skipped) reasons[general_reason(outcome.reason)].push_back(outcome.name);
  }
  fmt::print(
      "# ONNX's conformance cases\n\n"
      "Printed by `build/conformance --cases DIR --markdown`: ONNX's own backend cases (v1.23), on the CPU, at ONNX's\n"
      "own tolerance (rtol 1e-3, bf16 1/64, atol 1e-7). A case is skipped only if its model needs what sparkpilot "
      "does not do\n"
      "by design, as the importer says, or its expected values are random; a wrong answer or any other error would "
      "count as failed.\n\n"
      "| suite | cases | passed | skipped | failed |\n|---|---|---|---|---|\n");
  for (const auto& [suite, counts] : suites) {
    fmt::print("| {} | {} | {} | {} | {} |\n", suite, counts[0] + counts[1] + counts[2], counts[0], counts[1],
               counts[2]);
  }
  fmt::print("\n## Compared at another tolerance\n\n| cases | absolute tolerance | reason |\n|---|---|---|\n");
  for (const Exception& exception : kExceptions) {
    if (exception.absolute > 0)
      fmt::print("| `{}` | {} | {} |\n", exception.name, exception.absolute, exception.reason);
  }
  fmt::print("\n## Skipped, and why\n\n| reason | cases | which |\n|---|---|---|\n");
  for (const auto& [reason, names] : reasons) {
    constexpr size_t kShown = 4;
    std::string shown;
    for (size_t i = 0; i < std::min(kShown, names.size()); ++i) shown += (i ? ", `" : "`") + names[i] + "`";
    if (names.size() > kShown) shown += ", ...";
    fmt::print("| {} | {} | {} |\n", reason, names.size(), shown);
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Runs ONNX's backend test cases."};
  std::string cases;
  Engine engine;
  std::vector<std::string> filters;
  bool all = false, json = false, markdown = false;
  int least = 0;
  app.add_option("--cases", cases, "folder that holds cases, at any depth")->required();
  app.add_option("--filter", filters, "only cases whose name contains one of these");
  app.add_option("--engine", engine.name, "session (with all passes), interpret or export")
      ->check(CLI::IsMember({"session", "interpret", "export"}));
  app.add_option("--written", engine.written, "export: where the models go");
  app.add_option("--kernel", engine.kernel, "the candidate to use where an op has it, such as reference");
  app.add_flag("--all", all, "print passed and skipped cases too");
  app.add_flag("--json", json, "one JSON document");
  app.add_flag("--markdown", markdown, "the page docs/conformance.md");
  app.add_option("--least", least, "cases of the suite `node` that have to pass");
  CLI11_PARSE(app, argc, argv);

  const bool keep = !engine.written.empty();
  if (!keep) engine.written = fs::temp_directory_path() / fmt::format("sparkpilot_conformance_{}", ::getpid());
  if (engine.name == "export") fs::create_directories(engine.written);

  for (const int signal : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL}) std::signal(signal, on_crash);
  const int64_t start = now_ns();
  std::vector<Outcome> outcomes;
  for (const fs::path& folder : find_cases(cases)) {
    const std::string name = fs::relative(folder, cases).string();
    const bool wanted = filters.empty() || std::any_of(filters.begin(), filters.end(), [&](const auto& text) {
                          return name.find(text) != std::string::npos;
                        });
    if (wanted) outcomes.push_back(run_case(folder, name, engine));
  }
  if (!keep) fs::remove_all(engine.written);
  if (json) print_json(outcomes);
  else if (markdown) print_markdown(outcomes);
  else print_text(outcomes, all, static_cast<double>(now_ns() - start) * 1e-9);
  const auto failed = std::count_if(outcomes.begin(), outcomes.end(),
                                    [](const Outcome& outcome) { return outcome.kind == Outcome::failed; });
  const auto passed = std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) {
    return outcome.kind == Outcome::passed && suite_of(outcome.name) == "node";
  });
  if (passed < least) fmt::print(stderr, "conformance: {} cases of node passed, expected at least {}\n", passed, least);
  return failed > 0 || passed < least ? 4 : 0;
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  try {
    return sparkpilot::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "conformance: {}\n", error.what());
    return 2;
  }
}
