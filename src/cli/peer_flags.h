// The flags of commands that also run other engines, with the same texts everywhere.
#pragma once

#include <string>
#include <vector>

#include "bench/peer.h"
#include "cli/command.h"

namespace sparkpilot::cli {

struct PeerFlags {
  std::string names;   // separated by commas
  double timeout = 0;  // seconds; 0: those of PeerOptions
};

// --peer and --peer-timeout
void add_peer_flags(Command command, PeerFlags& flags);

// The peers that the flag names. Fails (user) on a wrong name, one that is given twice, or one without an adapter.
std::vector<PeerName> peers_of(const Program& program, const PeerFlags& flags);

// Where adapters are: the setting `peers`, the user's folder ($XDG_DATA_HOME/sparkpilot/peers), and those of the
// installation and of the source tree that the program is in; and how they are run. `device`: for those that are other
// builds of this program.
PeerOptions peer_options(const Program& program, const PeerFlags& flags, const std::string& device);

}  // namespace sparkpilot::cli
