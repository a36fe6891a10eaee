// Commands and their options. CLI11 parses the command line; it is slow to compile, so that only command_line.cc and
// main.cc include it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sparkpilot::cli {

// The values that an option takes, where they are a list of words.
using OptionWords = std::map<const CLI::Option*, std::vector<std::string>>;

// What a command's help text says of an option, as data.
struct OptionHelp {
  std::vector<std::string> names = {};  // "-o", "--out"; none: a positional argument
  std::string value = {};               // what the help text calls its value: "DIR"; empty: a flag
  std::string standard = {};            // the default value; may be empty
  std::string doc = {};
  std::vector<std::string> words = {};  // the values that it takes; empty: others too
  bool required = false, repeated = false;
  bool value_optional = false;
};

// The same of a command and those below it. Completions and manual pages are made of it. Without what is hidden.
struct CommandHelp {
  std::string name = {};  // "model info"; empty: the program itself
  std::string doc = {}, footer = {};
  std::vector<OptionHelp> options = {};
  std::vector<CommandHelp> commands = {};
};

// An option or a flag of a command. Copies mean the same option; it lives as long as the command line. Every function
// returns the option itself.
class Option {
 public:
  Option(CLI::Option* option, OptionWords* words) : option_(option), words_(words) {}

  const Option& required(bool is = true) const;
  const Option& type_name(const std::string& name) const;    // of its value, in the help text
  const Option& default_str(const std::string& text) const;  // in the help text
  const Option& values(int least, int most) const;           // how many follow the flag
  const Option& one_value_each() const;                      // given again for each further value
  const Option& between(double least, double greatest) const;
  // `wrong` says what is wrong with a value; empty if nothing is.
  const Option& check(const std::function<std::string(const std::string&)>& wrong) const;
  // Called with each value before those that are missing are reported.
  const Option& on_value(const std::function<void(const std::string&)>& take) const;
  const Option& needs(const Option& other) const;
  const Option& excludes(const Option& other) const;
  const Option& hidden() const;  // from the help text
  // For completions; check() refuses others.
  const Option& words(const std::vector<std::string>& values) const;

 private:
  CLI::Option* option_;
  OptionWords* words_;
};

// A command, or a group of commands. Copies mean the same command; it lives as long as the command line.
class Command {
 public:
  // `words` lives as long as the command line.
  Command(CLI::App* app, OptionWords* words) : app_(app), words_(words) {}

  Command add_command(const std::string& name, const std::string& doc) const;
  // A group: one of its commands has to be named.
  Command add_group(const std::string& name, const std::string& doc) const;
  const Command& footer(const std::string& text) const;  // ends the help text
  // `named` is called if the command line names this command.
  const Command& callback(std::function<void()> named) const;

  // Prints `text` and ends the program.
  void add_version_flag(const std::string& flag, const std::string& text, const std::string& doc) const;
  Option add_flag(const std::string& flag, bool& value, const std::string& doc) const;
  Option add_flag(const std::string& flag, std::function<void(int64_t)> take, const std::string& doc) const;
  // Without dashes in front of `flag`, the value is a positional argument. Value: string, list of strings, or a number.
  template <typename Value>
  Option add_option(const std::string& flag, Value& value, const std::string& doc) const;
  Option add_option(const std::string& flag, const std::function<void(const std::string&)>& take,
                    const std::string& doc) const;
  // Lets the command go without the options that it requires.
  void require_no_options() const;

  std::string full_name() const;  // "model info"
  CommandHelp help() const;
  const CLI::App* app() const { return app_; }

 private:
  CLI::App* app_;
  OptionWords* words_;
};

// The long names of a command's options that the command line has: "--out".
std::vector<std::string> given_flags(const CLI::App& command);

}  // namespace sparkpilot::cli
