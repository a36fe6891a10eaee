// Combines flags, environment, configuration file and defaults. Only here does the program read the system for its
// settings.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "config/tool_environment.h"

namespace sparkpilot::cli {

// Fills the program's configuration file and settings once the command line is parsed; reports values that cannot be
// used on stderr. Fails (user) on a wrong flag, and on a wrong --config.
void read_settings(Program& program);

// The facts on which the choice of a device depends. Determined once.
const DeviceFacts& this_device_facts();

// Why a device cannot be used; empty if it can.
std::string device_refusal(const Program& program, const std::string& device);

// The precision that a text names, and what "auto" is on the device; where that is "auto" as well, sessions settle
// both. Fails (user) on another text, with those that are known, and on one that cannot be used on the device.
Precision precision_of(const Program& program, const std::string& text, const std::string& device);

// Why a precision cannot be used on a device; empty if it can. `auto` may take the CPU.
std::string precision_refusal(const Program& program, Precision precision, const std::string& device);
// Says what a precision of less than 16 bits leaves as it is in a model in which it stored the weights of so many
// layers, and that NVFP4 is experimental; each line once. `not_finite`: not_finite_weights().
void tell_about_precision(const Program& program, Precision precision, int stored, const std::string& not_finite);

// Why a number of threads, or "auto", cannot be used; empty if it can.
std::string threads_refusal(const std::string& threads);

// An environment variable; empty if it is not set.
std::optional<std::string> variable(const char* name);

}  // namespace sparkpilot::cli
