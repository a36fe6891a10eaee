// Flags whose value is a list: one model in several precisions, with several numbers of threads.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"

namespace sparkpilot::cli {

// The parts of a text between separators; one for a text without any, even if it is empty.
std::vector<std::string> split(const std::string& text, char at);

// "a,b" as its items. Fails (user) naming the flag if one is empty or given twice.
std::vector<std::string> split_list(const std::string& text, const std::string& flag);

// What `compare` takes for --precision: what precision_of() does, or int8, for which the model is quantized and the
// rest is in fp32. Fails (user) likewise.
struct VariantPrecision {
  Precision precision = Precision::fp32;
  bool int8 = false;
};
VariantPrecision variant_precision(const Program& program, const std::string& text, const std::string& device);
// The items of --precision, or the setting if the flag was not given; if that is "auto" and there are several devices,
// fp32, so that these alone make the difference. Fails (user) like split_list().
std::vector<std::string> precisions_of(const Program& program, const std::string& flag,
                                       const std::vector<std::string>& devices);

// The items of --device, or the setting if the flag was not given. Fails (user) on one that is unknown or not there.
std::vector<std::string> devices_of(const Program& program, const std::string& flag);
// Gives a variant its device.
void set_device(const Program& program, SessionOptions& options, const std::string& device);
// --device with one value, which is the setting, or with several, which go to `list`; and --memory-reserve.
void add_device_list(Program& program, Command command, std::string& list);

// The same for --threads.
std::vector<std::string> thread_counts_of(const Program& program, const std::string& flag);
// An item of it: 0 for "auto", the number of processors for 0. Fails (user) naming the flag.
int threads_of(const std::string& count);
std::string threads_name(const std::string& count);  // "2 threads"

// The words that are to be in it, with spaces between them.
std::string variant_name(const std::vector<std::pair<bool, std::string>>& words);

// --precision with one value, which is the setting, or with several, which go to `list`.
void add_precision_list(Program& program, Command command, std::string& list);

// One word that distinguishes each file: its name, or its path if two have the same name.
std::vector<std::string> file_names(const std::vector<std::string>& files);

}  // namespace sparkpilot::cli
