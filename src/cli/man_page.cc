#include "cli/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace sparkpilot::cli {
namespace {

// Text as it is: nothing in it is a request to the formatter, and its dashes can be copied.
std::string roff_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if (c == '\'') out += "\\(aq";
    else if (c == '`') out += "\\(ga";
    else if (c == '^') out += "\\(ha";
    else if (c == '~') out += "\\(ti";
    else out += c;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}
std::string bold(const std::string& text) { return "\\fB" + roff_text(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff_text(text) + "\\fR"; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

std::string title_of(const std::string& command) { return command.empty() ? "sparkpilot" : "sparkpilot " + command; }

std::string synopsis(const CommandHelp& command) {
  std::string text = bold(title_of(command.name));
  if (!command.commands.empty()) return text + " " + italic("COMMAND");
  text += " [" + italic("OPTIONS") + "]";
  for (const OptionHelp& option : command.options) {
    if (!option.names.empty()) continue;
    const std::string name = italic(option.value) + (option.repeated ? " ..." : "");
    text += option.required ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string entry(const OptionHelp& option) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + bold(name);
  if (!option.value.empty()) head += (head.empty() ? "" : " ") + italic(option.value);
  std::string text = option.doc;
  const bool standard = !option.standard.empty() && option.standard != "[]" && option.standard != "\"\"";
  std::string more;
  if (!option.names.empty() && option.required) more = "required";
  else if (!option.names.empty() && standard) more = "default: " + option.standard;
  if (!more.empty()) text += " (" + more + ")";
  return ".TP\n" + head + "\n" + roff_text(text) + "\n";
}

// Indented lines of a help text's end are examples, the others are about the command.
std::string ending(const std::string& footer) {
  std::string examples, notes;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) examples += roff_text(line.substr(2)) + "\n";
    else if (line != "Examples:" && line != "Example:" && !line.empty()) notes += roff_text(line) + "\n";
  }
  std::string text;
  if (!notes.empty()) text += ".SH NOTES\n" + notes;
  if (!examples.empty()) text += ".SH EXAMPLES\n.EX\n" + examples + ".EE\n";
  return text;
}

std::string reference(const std::string& command) { return ".BR " + roff_text(page_name(command)) + " (1)"; }

void add_pages(const CommandHelp& command, const std::string& parent, std::string_view version,
               std::vector<std::pair<std::string, std::string>>& pages) {
  const std::string name = page_name(command.name);
  std::string text =
      fmt::format(".\\\" Made by `sparkpilot man`.\n.TH {} 1 \"\" \"sparkpilot {}\" \"sparkpilot\"\n.nh\n.ad l\n",
                  roff_text(upper(name)), version);
  text += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n", roff_text(name), roff_text(command.doc),
                      synopsis(command));
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandHelp& below : command.commands)
    text += fmt::format(".TP\n{}\n{}\n", reference(below.name), roff_text(below.doc));
  for (const bool positional : {true, false}) {
    std::string entries;
    for (const OptionHelp& option : command.options) {
      if (option.names.empty() == positional) entries += entry(option);
    }
    if (!entries.empty()) text += fmt::format(".SH {}\n{}", positional ? "ARGUMENTS" : "OPTIONS", entries);
  }
  text += ending(command.footer);
  if (!command.name.empty()) {
    text += ".SH SEE ALSO\n" + reference(parent);
    if (!parent.empty()) text += " ,\n" + reference("");
    text += "\n";
  }
  pages.emplace_back(name, text);
  for (const CommandHelp& below : command.commands) add_pages(below, command.name, version, pages);
}

}  // namespace

std::string page_name(const std::string& command) {
  std::string name = command.empty() ? "sparkpilot" : "sparkpilot-" + command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::vector<std::pair<std::string, std::string>> man_pages(const CommandHelp& program, std::string_view version) {
  std::vector<std::pair<std::string, std::string>> pages;
  add_pages(program, "", version, pages);
  return pages;
}

}  // namespace sparkpilot::cli
