#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

namespace sparkpilot::cli {
namespace {

OptionHelp help_of(const CLI::Option& option, const OptionWords& words) {
  OptionHelp out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  out.doc = option.get_description();
  out.required = option.get_required();
  if (option.get_type_size() == 0) return out;  // a flag
  out.value = option.get_type_name();
  out.standard = option.get_default_str();
  if (const auto found = words.find(&option); found != words.end()) out.words = found->second;
  out.repeated = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  out.value_optional = option.get_expected_min() == 0;
  return out;
}

CommandHelp help_of(const CLI::App& app, const std::string& name, const OptionWords& words) {
  CommandHelp out{.name = name, .doc = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) out.options.push_back(help_of(*option, words));
  }
  for (const CLI::App* below : app.get_subcommands({})) {
    if (!below->get_group().empty())
      out.commands.push_back(help_of(*below, (name.empty() ? "" : name + " ") + below->get_name(), words));
  }
  return out;
}

}  // namespace

const Option& Option::required(bool is) const {
  option_->required(is);
  return *this;
}

const Option& Option::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

const Option& Option::default_str(const std::string& text) const {
  option_->default_str(text);
  return *this;
}

const Option& Option::values(int least, int most) const {
  option_->expected(least, most);
  return *this;
}

const Option& Option::one_value_each() const {
  option_->allow_extra_args(false);
  return *this;
}

const Option& Option::between(double least, double greatest) const {
  option_->check(CLI::Range(least, greatest));
  option_->check(
      [](const std::string& text) { return std::isnan(std::strtod(text.c_str(), nullptr)) ? "not a number" : ""; }, "");
  return *this;
}

const Option& Option::check(const std::function<std::string(const std::string&)>& wrong) const {
  option_->check(wrong, "");
  return *this;
}

const Option& Option::on_value(const std::function<void(const std::string&)>& take) const {
  option_->each(take);
  return *this;
}

const Option& Option::needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}

const Option& Option::excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

const Option& Option::hidden() const {
  option_->group("");
  return *this;
}

const Option& Option::words(const std::vector<std::string>& values) const {
  (*words_)[option_] = values;
  return *this;
}

Command Command::add_command(const std::string& name, const std::string& doc) const {
  return {app_->add_subcommand(name, doc), words_};
}

Command Command::add_group(const std::string& name, const std::string& doc) const {
  CLI::App* group = app_->add_subcommand(name, doc);
  group->require_subcommand(1);
  return {group, words_};
}

const Command& Command::footer(const std::string& text) const {
  app_->footer(text);
  return *this;
}

const Command& Command::callback(std::function<void()> named) const {
  app_->callback(std::move(named));
  return *this;
}

void Command::add_version_flag(const std::string& flag, const std::string& text, const std::string& doc) const {
  app_->set_version_flag(flag, text, doc);
}

Option Command::add_flag(const std::string& flag, bool& value, const std::string& doc) const {
  return {app_->add_flag(flag, value, doc), words_};
}

Option Command::add_flag(const std::string& flag, std::function<void(int64_t)> take, const std::string& doc) const {
  return {app_->add_flag_function(flag, std::move(take), doc), words_};
}

template <typename Value>
Option Command::add_option(const std::string& flag, Value& value, const std::string& doc) const {
  return {app_->add_option(flag, value, doc), words_};
}

template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&) const;

Option Command::add_option(const std::string& flag, const std::function<void(const std::string&)>& take,
                           const std::string& doc) const {
  return {app_->add_option_function<std::string>(flag, take, doc), words_};
}

void Command::require_no_options() const {
  for (CLI::Option* option : app_->get_options()) option->required(false);
}

std::string Command::full_name() const {
  const CLI::App* group = app_->get_parent();
  return group && group->get_parent() ? group->get_name() + " " + app_->get_name() : app_->get_name();
}

CommandHelp Command::help() const { return help_of(*app_, app_->get_parent() ? full_name() : "", *words_); }

std::vector<std::string> given_flags(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional() && option->count() > 0) flags.push_back(option->get_name());
  }
  return flags;
}

}  // namespace sparkpilot::cli
