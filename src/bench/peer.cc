#include "bench/peer.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "adapters/load_model.h"
#include "base/child_process.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scratch_folder.h"
#include "base/text.h"
#include "tensor/npy.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Answer = ChildProcess::Answer;

constexpr size_t kLongestText = 400;  // of an adapter's, in bytes

std::string shortened(std::string_view text) {
  return text.size() <= kLongestText ? std::string(text) : std::string(text.substr(0, kLongestText)) + "...";
}

// How the file is started; the child runs in another folder.
std::vector<std::string> program_of(const fs::path& adapter, const std::string& python) {
  const fs::path file = fs::absolute(adapter);
  if (file.extension() != ".py") return {file.string()};
  if (python.find('/') != std::string::npos) return {fs::absolute(python).string(), file.string()};
  if (!python.empty()) return {python, file.string()};
  const fs::path venv_python = file.parent_path().parent_path() / ".venv/bin/python";
  std::error_code none;
  return {fs::exists(venv_python, none) ? venv_python.string() : "python3", file.string()};
}

ChildOptions child_of(const PeerName& name, const PeerAdapter& adapter, const PeerOptions& options,
                      const fs::path& folder) {
  ChildOptions child{.command = program_of(adapter.file, options.python), .folder = folder, .unset = options.unset};
  if (!name.is_path()) return child;
  child.command.emplace_back("peer");
  child.command.insert(child.command.end(), options.words.begin(), options.words.end());
  child.set = options.set;
  // Versions do not read each other's timings of kernels, and would replace the user's. Ends with the adapter's folder.
  child.set.try_emplace("XDG_CACHE_HOME", folder);
  child.remove_if_killed = options.remove_if_killed;
  return child;
}

}  // namespace

struct Peer::State {
  PeerName name;
  PeerOptions options;
  std::string engine;
  ScratchFolder folder;  // outlives the child
  std::unique_ptr<ChildProcess> child;
  std::string ended_because;  // if there is no child

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
    fail("{}: {}", name.str(), fmt::format(format, std::forward<Args>(args)...));
  }
  // Ends the adapter, too.
  template <typename... Args>
  [[noreturn]] void give_up(fmt::format_string<Args...> format, Args&&... args) {
    ended_because = fmt::format(format, std::forward<Args>(args)...);
    child.reset();
    refuse("{}", ended_because);
  }

  // Its next line as an object without an error in it.
  Json answer(std::string_view to, double seconds) {
    std::string line;
    switch (child->read_line(line, seconds)) {
      case Answer::ok: break;
      case Answer::late: give_up("no answer to {} in {:g} s", to, seconds);
      case Answer::too_long: give_up("its answer to {} is longer than 4 MiB", to);
      case Answer::ended: {
        const std::string how = child->how_it_ended(), last = child->last_error();
        give_up("the adapter ended at {} ({}){}{}", to, how, last.empty() ? "" : ": ", last);
      }
    }
    Json json;
    try {
      std::optional<Json> parsed = parse_bounded(line);
      if (!parsed) give_up("its answer to {} is nested deeper than {}", to, kDeepestJson);
      json = std::move(*parsed);
    } catch (const Json::exception&) {  // said below
    }
    if (!json.is_object()) {
      give_up("its answer to {} is not a JSON object: \"{}\"", to, shortened(line));
    }
    const auto error = json.find("error");
    if (error == json.end()) return json;
    if (!error->is_string()) give_up("its answer to {} has an error that is no text", to);
    refuse("{}", shortened(error->get<std::string>()));
  }

  Json ask(const char* what, const Json& request, double seconds) {
    if (!child) refuse("{}", ended_because);
    Json whole{{"do", what}};
    whole.update(request);
    const std::string line = json_text(whole);
    if (child->write_line(line, seconds) == Answer::late) give_up("it does not read the request to {}", what);
    return answer(what, seconds);  // if it has ended, this says how
  }

  // A text of an answer, whole.
  std::string text(const Json& json, const char* key, const char* what) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) give_up("its answer to {} lacks the text \"{}\"", what, key);
    return found->get<std::string>();
  }
  // One that is shown: short, in one line, without control characters.
  std::string shown(const Json& json, const char* key, const char* what) {
    std::string out = shortened(text(json, key, what));
    std::replace_if(
        out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    return out;
  }

  Tensor array(const std::string& output, const std::string& file, int64_t& bytes_left) {
    const fs::path path = folder.path() / file;
    std::error_code none;
    if (file.empty() || fs::path(file).filename() != file || !fs::is_regular_file(fs::symlink_status(path, none))) {
      give_up(R"(output "{}": expected the name of a file in the adapter's folder, got "{}")", shortened(output),
              shortened(file));
    }
    const auto bytes = fs::file_size(path, none);
    if (none || bytes > static_cast<uintmax_t>(std::max<int64_t>(bytes_left, 0))) {
      give_up("output \"{}\": its outputs are larger than {} bytes", shortened(output), options.most_output_bytes);
    }
    bytes_left -= static_cast<int64_t>(bytes);
    try {
      return load_npy(path);
    } catch (const Error& error) {
      give_up("output \"{}\": {}", shortened(output), error.what());
    } catch (const std::bad_alloc&) {
      give_up("output \"{}\": {} bytes are more than this machine's memory holds", shortened(output), bytes);
    }
  }
};

std::string reason_of(const PeerName& peer, const Error& error) {
  const std::string said = error.what(), prefix = peer.str() + ": ";
  return said.starts_with(prefix) ? said.substr(prefix.size()) : said;
}

Peer::Peer(const PeerName& name, const PeerOptions& options) : state_(new State{.name = name, .options = options}) {
  const PeerAdapter adapter = find_adapter(name.name, options.folders);
  State& s = *state_;
  try {
    s.child = std::make_unique<ChildProcess>(child_of(name, adapter, options, s.folder.path()));
  } catch (const Error& error) {
    s.refuse("{}", error.what());
  }
  const Json hello = s.answer("starting", options.start_s);
  const auto protocol = hello.find("protocol");
  if (protocol == hello.end() || !protocol->is_number_integer() || *protocol != kPeerProtocol) {
    s.give_up("the adapter {} speaks protocol {}, expected {}", adapter.file.string(),
              protocol == hello.end() ? "none" : shortened(protocol->dump(-1, ' ', true)), kPeerProtocol);
  }
  s.engine = s.shown(hello, "engine", "starting");
}

Peer::~Peer() = default;
Peer::Peer(Peer&&) noexcept = default;
Peer& Peer::operator=(Peer&&) noexcept = default;

const PeerName& Peer::name() const { return state_->name; }
const std::string& Peer::engine() const { return state_->engine; }

PeerLoaded Peer::load(const PeerLoad& request) {
  State& s = *state_;
  if (!parse_model_name(request.model).adapters.empty()) {
    fail("{}: another engine reads the file as it is: write one with the adapter first (sparkpilot adapter merge)",
         request.model.string());
  }
  Json shapes = Json::object();
  for (const auto& [input, shape] : request.shapes) {
    Json sizes = Json::array();
    for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
    shapes[input] = sizes;
  }
  const int64_t start = now_ns();
  const Json json = s.ask("load",
                          {{"model", fs::absolute(request.model).string()},
                           {"threads", request.threads},
                           {"precision", request.precision},
                           {"provider", s.name.provider},
                           {"shapes", shapes},
                           {"outputs", request.outputs}},
                          s.options.load_s);
  PeerLoaded loaded{.load_ms = static_cast<double>(now_ns() - start) * 1e-6};
  loaded.device = s.shown(json, "device", "load");
  loaded.precision = s.shown(json, "precision", "load");
  const auto threads = json.find("threads");
  if (threads == json.end() ||
      !(threads->is_null() || (threads->is_number_integer() && *threads >= 1 && *threads <= 100'000))) {
    s.give_up("its answer to load lacks \"threads\": a number of 1 or more, or null");
  }
  if (threads->is_number()) loaded.threads = threads->get<int>();
  return loaded;
}

void Peer::set_inputs(const std::map<std::string, Tensor>& inputs) {
  State& s = *state_;
  Json files = Json::object();
  for (const auto& [name, tensor] : inputs) {
    const std::string file = fmt::format("in_{}.npy", files.size());
    save_npy(s.folder.path() / file, tensor.view());
    files[name] = file;
  }
  s.ask("inputs", {{"files", files}}, s.options.run_s);
}

std::vector<double> Peer::run(int64_t count, bool again) {
  State& s = *state_;
  const int64_t start = now_ns();
  Json request{{"count", count}};
  if (again) request["again"] = true;
  const Json json = s.ask("run", request, s.options.run_s);
  const double most = static_cast<double>(now_ns() - start) * 1e-6;
  const auto list = json.find("ms");
  if (list == json.end() || !list->is_array() || std::ssize(*list) != count) {
    s.give_up("its answer to run lacks \"ms\" with {}", count_of(count, "number"));
  }
  std::vector<double> ms;
  double sum = 0;
  for (const Json& one : *list) {
    if (!one.is_number()) s.give_up("its answer to run has a time that is no number");
    ms.push_back(one.get<double>());
    if (!(ms.back() >= 0) || !std::isfinite(ms.back())) s.give_up("a run took {} ms, by its answer", ms.back());
    sum += ms.back();
  }
  if (sum > 1.05 * most + 1) {
    s.give_up("{} took {:.3g} ms by its answer, which came after {:.3g} ms", count_of(count, "run"), sum, most);
  }
  return ms;
}

std::vector<std::pair<std::string, Tensor>> Peer::outputs() {
  State& s = *state_;
  const Json json = s.ask("outputs", Json::object(), s.options.run_s);
  const auto list = json.find("outputs");
  if (list == json.end() || !list->is_array()) s.give_up("its answer to outputs lacks the list \"outputs\"");
  std::vector<std::pair<std::string, Tensor>> out;
  std::set<std::string> names;
  int64_t left = s.options.most_output_bytes;
  for (const Json& one : *list) {
    if (!one.is_object()) s.give_up("its answer to outputs has an output that is no object");
    const auto name = one.find("name");
    if (name == one.end() || !name->is_string()) s.give_up("its answer to outputs lacks an output's \"name\"");
    const std::string output = name->get<std::string>();
    if (!names.insert(output).second) s.give_up("output \"{}\" is there twice", shortened(output));
    out.emplace_back(output, s.array(output, s.text(one, "file", "outputs"), left));
  }
  return out;
}

}  // namespace sparkpilot
