#include "cli/peer_flags.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "cli/shipped.h"
#include "cli/short_waits.h"
#include "cli/variants.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_of(const Program& program) {
  std::vector<fs::path> folders;
  for (const std::string& folder : split(program.settings["peers"].value, ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  const char *data = std::getenv("XDG_DATA_HOME"), *home = std::getenv("HOME");
  if (data && *data == '/') folders.push_back(fs::path(data) / "sparkpilot/peers");
  else if (home && *home) folders.push_back(fs::path(home) / ".local/share/sparkpilot/peers");
  for (const fs::path& folder : shipped("peers")) folders.push_back(folder);
  return folders;
}

}  // namespace

void add_peer_flags(Command command, PeerFlags& flags) {
  command
      .add_option("--peer", flags.names,
                  "also run these engines, such as onnxruntime, pytorch, tinygrad, trtexec or onnxruntime:cuda, by the "
                  "adapters that docs/peers.md describes; ./old/sparkpilot is another build of this program")
      .type_name("LIST");
  add_number(command, "--peer-timeout", flags.timeout,
             "seconds that a peer may take to start, to load a model, or for a turn; 0: 120, 600 and 120", "S");
}

std::vector<PeerName> peers_of(const Program& program, const PeerFlags& flags) {
  std::vector<PeerName> peers;
  if (flags.names.empty()) return peers;
  const std::vector<fs::path> folders = folders_of(program);
  for (const std::string& text : split(flags.names, ',')) {
    peers.push_back(parse_peer_name(text));
    const auto same = [&](const PeerName& other) { return other.str() == text; };
    if (std::count_if(peers.begin(), peers.end(), same) > 1) fail("--peer: {} is given twice", text);
    find_adapter(peers.back().name, folders);
  }
  return peers;
}

PeerOptions peer_options(const Program& program, const PeerFlags& flags, const std::string& device) {
  if (!(flags.timeout >= 0)) fail("--peer-timeout: expected 0 or more, got {}", flags.timeout);
  PeerOptions options;
  options.folders = folders_of(program);
  options.python = program.settings["python"].value;
  options.unset = variables_of_short_waits();
  options.words = {"--device", device, "--tune", program.settings["tune"].value};
  for (const auto& [flag, value] :
       {std::pair<std::string, std::string>{"--memory-reserve", program.settings["memory-reserve"].value},
        {"--config", program.config.empty() ? "" : fs::absolute(program.config).string()}}) {
    if (!value.empty()) options.words.insert(options.words.end(), {flag, value});
  }
  if (program.emulate) options.words.emplace_back("--emulate");
  if (flags.timeout > 0) options.start_s = options.load_s = options.run_s = flags.timeout;
  return options;
}

}  // namespace sparkpilot::cli
