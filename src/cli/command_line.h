// Commands and their options. CLI11 parses the command line; it is slow to compile, so that only command_line.cc and
// main.cc include it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sparkpilot::cli {

// An option or a flag of a command. Copies mean the same option; it lives as long as the command line. Every function
// returns the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

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

 private:
  CLI::Option* option_;
};

// A command, or a group of commands. Copies mean the same command; it lives as long as the command line.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

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
  const CLI::App* app() const { return app_; }

 private:
  CLI::App* app_;
};

// The long names of a command's options that the command line has: "--out".
std::vector<std::string> given_flags(const CLI::App& command);

}  // namespace sparkpilot::cli
