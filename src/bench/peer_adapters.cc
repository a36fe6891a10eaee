#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/nearest.h"
#include "bench/peer.h"

namespace sparkpilot {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 100 && text[0] != '.' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

}  // namespace

PeerName parse_peer_name(const std::string& text) {
  const size_t slash = text.rfind('/');
  const bool is_path = slash != std::string::npos;
  const size_t colon = std::min(is_path ? text.find(':', slash) : text.find(':'), text.size());
  PeerName peer{.name = text.substr(0, colon), .provider = text.substr(std::min(colon + 1, text.size()))};
  const bool named = is_path ? !peer.name.ends_with('/') : is_word(peer.name);
  if (!named || (colon < text.size() && !is_word(peer.provider))) {
    fail("expected a peer such as onnxruntime, onnxruntime:cuda or ./old/sparkpilot, got \"{}\"", text);
  }
  return peer;
}

std::vector<PeerAdapter> find_adapters(const std::vector<std::filesystem::path>& folders) {
  constexpr std::string_view kPrefix = "peer_", kPython = ".py";
  std::map<std::string, std::filesystem::path> found;
  for (const std::filesystem::path& folder : folders) {
    std::error_code none, unknown;
    std::filesystem::directory_iterator at(folder, none), end;
    for (; !none && at != end; at.increment(none)) {
      const std::filesystem::directory_entry& entry = *at;
      std::string name = entry.path().filename().string();
      if (!name.starts_with(kPrefix) || !std::filesystem::is_regular_file(entry.path(), unknown)) continue;
      name.erase(0, kPrefix.size());
      if (name.ends_with(kPython)) name.resize(name.size() - kPython.size());
      else if (::access(entry.path().c_str(), X_OK) != 0) continue;
      if (is_word(name)) found.emplace(name, entry.path());
    }
  }
  std::vector<PeerAdapter> adapters;
  for (const auto& [name, file] : found) adapters.push_back({name, file});
  return adapters;
}

PeerAdapter find_adapter(const std::string& peer, const std::vector<std::filesystem::path>& folders) {
  if (PeerName{.name = peer}.is_path()) {
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(peer, unknown)) fail("{}: no such file", peer);
    if (!peer.ends_with(".py") && ::access(peer.c_str(), X_OK) != 0) fail("{}: cannot be executed", peer);
    return {peer, peer};
  }
  std::vector<std::string> names;
  for (const PeerAdapter& adapter : find_adapters(folders)) {
    if (adapter.name == peer) return adapter;
    names.push_back(adapter.name);
  }
  std::string known = names.empty() ? "no adapters are there" : "there are ";
  for (size_t i = 0; i < names.size(); ++i) known += (i == 0 ? "" : ", ") + names[i];
  std::string where;
  for (const std::filesystem::path& folder : folders) where += (where.empty() ? "" : ", ") + folder.string();
  fail("no adapter for the peer {}: expected peer_{} in {}; {}", peer, peer,
       where.empty() ? "a folder, and none is given" : where, known + did_you_mean(peer, names));
}

}  // namespace sparkpilot
