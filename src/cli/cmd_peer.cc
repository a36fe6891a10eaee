// sparkpilot peer: this build as a peer of another one, by the protocol of docs/peers.md.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "adapters/load_model.h"
#include "base/error.h"
#include "base/json.h"
#include "base/version.h"
#include "base/with_file.h"
#include "bench/peer.h"
#include "bench/repeats.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/variants.h"
#include "runtime/run_value.h"
#include "tensor/npy.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostRuns = 100'000;  // their times fit a line of 4 MiB

constexpr size_t kLongestRequest = 4 << 20;

class Server {
 public:
  explicit Server(const Program& program) : program_(program) {}

  // Fails (user) if the request is wrong or the model's.
  Json answer(const Json& request) {
    const std::string what = text(request, "do");
    if (what == "load") return load(request);
    if (what != "inputs" && what != "run" && what != "outputs") fail("the request \"{}\" is not known", what);
    if (!session_) fail("{}: no model is loaded", what);
    if (what == "inputs") return set_inputs(request);
    return what == "run" ? run(request) : outputs();
  }

 private:
  static const Json& member(const Json& request, const char* key) {
    const auto found = request.find(key);
    if (found == request.end()) fail("the request lacks \"{}\"", key);
    return *found;
  }
  static std::string text(const Json& request, const char* key) {
    const Json& value = member(request, key);
    if (!value.is_string()) fail("{}: expected a text", key);
    return value.get<std::string>();
  }
  static int64_t number(const Json& value, const char* key, int64_t least, int64_t most) {
    const bool fits = value.is_number_integer() && value >= least && value <= most;
    if (!fits) fail("{}: expected a whole number from {} to {}", key, least, most);
    return value.get<int64_t>();
  }
  static const Json& object(const Json& request, const char* key) {
    const Json& value = member(request, key);
    if (!value.is_object()) fail("{}: expected an object", key);
    return value;
  }

  Json load(const Json& request) {
    session_.reset();
    SessionOptions options = session_options(program_, {});
    if (const std::string provider = text(request, "provider"); !provider.empty()) {
      const Setting& setting = find_setting("device");
      if (!accepts(setting, provider)) fail("expected {} after the colon, got {}", setting.values, provider);
      if (const std::string why = device_refusal(program_, provider); !why.empty()) fail("{}: {}", provider, why);
      set_device(program_, options, provider);
    }
    options.passes.precision = precision_of(program_, text(request, "precision"), options.device);
    options.threads = static_cast<int>(number(member(request, "threads"), "threads", 1, 100'000));
    if (const std::string wrong = threads_refusal(std::to_string(options.threads)); !wrong.empty())
      fail("{} threads: {}", options.threads, wrong);
    for (const auto& [input, sizes] : object(request, "shapes").items()) {
      if (!sizes.is_array() || sizes.size() > static_cast<size_t>(Shape::kMaxRank))
        fail("shapes: expected lists of sizes");
      std::vector<int64_t> dims;
      for (const Json& size : sizes) dims.push_back(number(size, "shapes", 0, int64_t{1} << 40));
      options.shapes[input] = Shape(std::span<const int64_t>(dims));
    }
    wanted_.clear();
    const Json& outputs = member(request, "outputs");
    if (!outputs.is_array()) fail("outputs: expected a list of names");
    for (const Json& name : outputs) {
      if (!name.is_string()) fail("outputs: expected a list of names");
      wanted_.insert(name.get<std::string>());
    }
    options.keep = wanted_;
    const std::string file = text(request, "model");
    with_file(file, [&] {
      Graph graph = load_model(file);
      std::set<std::string, std::less<>> unknown = wanted_;
      for (int i = 0; i < graph.value_count(); ++i) unknown.erase(graph.value(ValueId{i}).name);
      if (!unknown.empty()) fail("no value is named \"{}\"", *unknown.begin());
      session_ = std::make_unique<Session>(std::move(graph), options);
    });
    return {{"device", session_->device() == "cpu" ? "CPU" : "GPU"},
            {"precision", name(session_->precision())},
            {"threads", options.threads}};
  }

  Json set_inputs(const Json& request) {
    for (const auto& [input, file] : object(request, "files").items()) {
      if (!file.is_string()) fail("files: expected the name of a file for {}", input);
      const Tensor given = load_npy(file.get<std::string>());
      const auto& inputs = session_->inputs();
      const auto info =
          std::find_if(inputs.begin(), inputs.end(), [&](const TensorInfo& i) { return i.name == input; });
      // A .npy file has no bf16: it comes as f32.
      const bool widened = info != inputs.end() && info->dtype == DType::bf16 && given.dtype() == DType::f32;
      session_->set_input(input, widened ? convert(given, DType::bf16).view() : given.view());
    }
    session_->compile();
    return Json::object();
  }

  Json run(const Json& request) {
    Json ms = Json::array();
    const WaitTime wait;
    // Another run would be another one of a sequence if the model keeps states.
    const bool again = request.value("again", Json()) == true && session_->states().empty();
    for (int64_t left = number(member(request, "count"), "count", 1, kMostRuns); left > 0; --left)
      ms.push_back(time_once(wait, again ? 3 : 1));
    return {{"ms", std::move(ms)}};
  }

  // Of up to `attempts` runs the first whose threads did not wait for a processor that something else used, or else the
  // one that waited least.
  double time_once(const WaitTime& wait, int attempts) {
    WatchedRun best = time_run(*session_, wait);
    for (int i = 1; i < attempts && best.waited(); ++i) {
      const WatchedRun run = time_run(*session_, wait);
      if (run.waited_ms < best.waited_ms) best = run;
    }
    return best.ms;
  }

  Json outputs() {
    Json list = Json::array();
    const auto add = [&](const std::string& output, const ConstView& view) {
      const std::string file = fmt::format("out_{}.npy", list.size());
      save_npy(file, view);
      list.push_back({{"name", output}, {"file", file}});
    };
    std::set<std::string, std::less<>> left = wanted_;
    for (const TensorInfo& output : session_->outputs()) {
      if (wanted_.empty() || left.erase(output.name) > 0) add(output.name, session_->output(output.name));
    }
    session_->visit_values([&](const RunValue& value) {
      if (left.erase(std::string(value.name)) > 0) add(std::string(value.name), in_file_layout(value).view());
    });
    return {{"outputs", std::move(list)}};
  }

  const Program& program_;
  std::unique_ptr<Session> session_;
  std::set<std::string, std::less<>> wanted_;  // values to give; empty: the file's outputs
};

// Of a longer line only so much that it is seen to be too long.
bool read_line(std::istream& in, std::string& line) {
  line.clear();
  for (int c = in.get(); c != '\n'; c = in.get()) {
    if (c == std::char_traits<char>::eof()) return !line.empty();
    if (line.size() <= kLongestRequest) line.push_back(static_cast<char>(c));
  }
  return true;
}

int serve(const Program& program) {
  // Answers go where stdout went; what libraries print there goes to stderr.
  std::FILE* answers = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), "w");
  if (!answers || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) fail_internal("stdout cannot be moved");
  const auto say = [&](const Json& answer) {
    const std::string line = json_text(answer) + "\n";
    return std::fwrite(line.data(), 1, line.size(), answers) == line.size() && std::fflush(answers) == 0;
  };
  Server server(program);
  bool heard = say({{"protocol", kPeerProtocol}, {"engine", fmt::format("sparkpilot {}", program_version())}});
  for (std::string line; heard && read_line(std::cin, line);) {
    try {
      if (line.size() > kLongestRequest) fail("a request that is longer than 4 MiB");
      const std::optional<Json> request = parse_bounded(line);
      if (!request || !request->is_object()) fail("a request that is no object");
      if (request->value("do", Json()) == "quit") break;
      heard = say(server.answer(*request));
    } catch (const Json::exception&) {
      heard = say({{"error", "a request that is no JSON"}});
    } catch (const Error& error) {
      heard = say({{"error", error.what()}});
    }
  }
  std::fclose(answers);
  return kDone;
}

}  // namespace

void add_peer(Program& program, Command app) {
  const Command command = add_command(
      program, app, "peer", "answer another sparkpilot, which starts this one for --peer THIS_PROGRAM (docs/peers.md)",
      "  sparkpilot compare model.onnx --peer ./old/sparkpilot   # starts ./old/sparkpilot peer",
      [&program] { return serve(program); });
  add_device_flags(program, command);
  add_setting(program, command, "tune");
  command.add_flag("--emulate", program.emulate,
                   "compute a precision that this processor lacks, by slow kernels: for accuracy only");
}

}  // namespace sparkpilot::cli
