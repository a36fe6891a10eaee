#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace sparkpilot::cli {
namespace {

// Whether what a help text calls `value` is the name of a file or a folder.
bool names_files(const std::string& value) {
  const auto words = {"FILE", "DIR", "PATH", "ROUTE", "OUT", "DATA", "ADAPTER", "MODEL", "F.", ".npy"};
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return value.find(word) != value.npos; });
}

std::string replaced(std::string text, const std::vector<std::pair<char, const char*>>& by) {
  std::string out;
  for (const char c : text) {
    const auto found = std::find_if(by.begin(), by.end(), [c](const auto& each) { return each.first == c; });
    if (found == by.end()) out += c;
    else out += found->second;
  }
  return out;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::vector<const CommandHelp*> all_of(const CommandHelp& program) {
  std::vector<const CommandHelp*> all{&program};
  for (const CommandHelp& below : program.commands) {
    for (const CommandHelp* each : all_of(below)) all.push_back(each);
  }
  return all;
}

std::vector<std::string> names_below(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const CommandHelp& below : command.commands) names.push_back(last_word(below.name));
  if (command.name.empty()) names.emplace_back("help");
  return names;
}

constexpr const char* kDocOfHelp = "say more about a command";

// "model | model/info": what leads from one command to the next in the two shells that have `case`.
std::string steps(const CommandHelp& program) {
  std::vector<std::string> steps;
  for (const CommandHelp* command : all_of(program)) {
    for (const CommandHelp& below : command->commands) steps.push_back(command->name + "/" + last_word(below.name));
  }
  return fmt::format("{}", fmt::join(steps, " | "));
}

// ---------------------------------------------------------------- bash
constexpr const char* kBash = R"bash(# Completion of sparkpilot in bash, made by `sparkpilot completion bash`.
_sparkpilot() {{
  local IFS=$' \t\n' cur=${{COMP_WORDS[COMP_CWORD]}} prev= command= i
  local options= arguments= words= files= value=
  COMPREPLY=()
  [[ $cur != "=" ]] || cur=
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case $command/${{COMP_WORDS[i]}} in
      /help) ;;
      {}) command+=${{command:+ }}${{COMP_WORDS[i]}} ;;
      *) break ;;
    esac
  done
  for ((i = COMP_CWORD - 1; i > 0; --i)); do
    [[ ${{COMP_WORDS[i]}} == "=" ]] || {{ prev=${{COMP_WORDS[i]}}; break; }}
  done
  # What the command takes: options, words as arguments, and after an option its words, files or something else.
  case $command in
{}  esac
  if [[ $words ]]; then :
  elif [[ $value ]]; then
    [[ $value == files ]] || compopt +o default 2>/dev/null
    return 0
  elif [[ $cur == -* ]]; then words=$options
  elif [[ $arguments ]]; then words=$arguments
  elif [[ $files ]]; then return 0 # readline completes their names
  else words=$options
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _sparkpilot sparkpilot
)bash";

std::string bash_case(const CommandHelp& command) {
  std::vector<std::string> options, files, others, arguments = names_below(command);
  std::string prev;
  bool file_arguments = false;
  for (const OptionHelp& option : command.options) {
    if (option.names.empty()) {
      arguments.insert(arguments.end(), option.words.begin(), option.words.end());
      file_arguments |= names_files(option.value);
      continue;
    }
    options.insert(options.end(), option.names.begin(), option.names.end());
    if (option.value.empty()) continue;
    if (!option.words.empty())
      prev += fmt::format("        {}) words='{}' ;;\n", fmt::join(option.names, " | "), fmt::join(option.words, " "));
    auto& rest = names_files(option.value) ? files : others;
    if (option.words.empty()) rest.insert(rest.end(), option.names.begin(), option.names.end());
  }
  if (!files.empty()) prev += fmt::format("        {}) value=files ;;\n", fmt::join(files, " | "));
  if (!others.empty()) prev += fmt::format("        {}) value=other ;;\n", fmt::join(others, " | "));
  std::string text = fmt::format("    '{}')\n      options='{}'\n", command.name, fmt::join(options, " "));
  if (!arguments.empty()) text += fmt::format("      arguments='{}'\n", fmt::join(arguments, " "));
  if (file_arguments) text += "      files=1\n";
  if (!prev.empty()) text += "      case $prev in\n" + prev + "      esac\n";
  return text + "      ;;\n";
}

std::string bash(const CommandHelp& program) {
  std::string cases;
  for (const CommandHelp* command : all_of(program)) cases += bash_case(*command);
  return fmt::format(kBash, steps(program), cases);
}

// ---------------------------------------------------------------- zsh
constexpr const char* kZsh = R"zsh(#compdef sparkpilot
# Completion of sparkpilot in zsh, made by `sparkpilot completion zsh`.
_sparkpilot() {{
  local command= at=1 i
  local -a commands
  for ((i = 2; i < CURRENT; ++i)); do
    case $command/$words[i] in
      (/help) ;;
      ({}) command+=${{command:+ }}$words[i] ;;
      (*) break ;;
    esac
    at=$i
  done
  words=("$words[1]" "${{(@)words[at+1,-1]}}")
  ((CURRENT -= at - 1))
  case $command in
{}  esac
}}
# Loaded by name or sourced.
if [[ $funcstack[1] == _sparkpilot ]]; then _sparkpilot "$@"; else compdef _sparkpilot sparkpilot; fi
)zsh";

std::string zsh_text(const std::string& text) {
  return replaced(text, {{'\'', "'\\''"}, {'\\', "\\\\"}, {'[', "\\["}, {']', "\\]"}, {':', "\\:"}});
}

// ":DIR:_files": the message and what completes a value.
std::string zsh_value(const OptionHelp& option) {
  const std::string action = !option.words.empty()       ? fmt::format("({})", fmt::join(option.words, " "))
                             : names_files(option.value) ? "_files"
                                                         : " ";
  return fmt::format(":{}:{}", zsh_text(option.value), action);
}

std::string zsh_option(const OptionHelp& option) {
  if (option.names.empty())
    return fmt::format("'{}{}'", option.repeated ? "*" : option.required ? "" : ":", zsh_value(option));
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    const char* joined = option.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    names.push_back(name + joined);
  }
  const std::string others = option.repeated ? "*" : fmt::format("({})", fmt::join(option.names, " "));
  const std::string doc = fmt::format("'[{}]", zsh_text(option.doc));
  const std::string value = option.value.empty() ? "" : (option.value_optional ? ":" : "") + zsh_value(option);
  if (names.size() == 1) return fmt::format("'{}'{}{}{}'", others, names[0], doc, value);
  return fmt::format("'{}'{{{}}}{}{}'", others, fmt::join(names, ","), doc, value);
}

std::string zsh_case(const CommandHelp& command) {
  std::string text = fmt::format("    ('{}')\n", command.name);
  if (!command.commands.empty()) {
    text += "      commands=(\n";
    for (const CommandHelp& below : command.commands)
      text += fmt::format("        '{}:{}'\n", last_word(below.name), replaced(below.doc, {{'\'', "'\\''"}}));
    if (command.name.empty()) text += fmt::format("        'help:{}'\n", kDocOfHelp);
    text += "      )\n      ((CURRENT > 2)) || _describe -t commands command commands\n";
  }
  if (!command.options.empty()) {
    text += "      _arguments -S";
    for (const OptionHelp& option : command.options) text += " \\\n        " + zsh_option(option);
    text += "\n";
  }
  return text + "      ;;\n";
}

std::string zsh(const CommandHelp& program) {
  std::string cases;
  for (const CommandHelp* command : all_of(program)) cases += zsh_case(*command);
  return fmt::format(kZsh, steps(program), cases);
}

// ---------------------------------------------------------------- fish
constexpr const char* kFish = R"fish(# Completion of sparkpilot in fish, made by `sparkpilot completion fish`.
function __sparkpilot_at
    set -l command
    for word in (commandline -opc)[2..-1]
        test "$command$word" = help; and continue
        contains -- (string join -- ' ' $command $word) {}
        or break
        set command $command $word
    end
    test "$(string join -- ' ' $command)" = "$argv"
end
complete -c sparkpilot -f
{})fish";

std::string fish_text(const std::string& text) { return "'" + replaced(text, {{'\'', "\\'"}, {'\\', "\\\\"}}) + "'"; }

std::string fish(const CommandHelp& program) {
  std::vector<std::string> known;
  std::string lines;
  for (const CommandHelp* command : all_of(program)) {
    if (!command->name.empty()) known.push_back(fish_text(command->name));
    const std::string at =
        fmt::format("complete -c sparkpilot -n {}", fish_text(fmt::format("__sparkpilot_at '{}'", command->name)));
    for (const CommandHelp& below : command->commands)
      lines += fmt::format("{} -a {} -d {}\n", at, last_word(below.name), fish_text(below.doc));
    if (command->name.empty()) lines += fmt::format("{} -a help -d {}\n", at, fish_text(kDocOfHelp));
    for (const OptionHelp& option : command->options) {
      std::string line = at;
      for (const std::string& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.words.empty()) line += fmt::format(" -x -a '{}'", fmt::join(option.words, " "));
      else if (names_files(option.value)) line += option.names.empty() ? " -F" : " -r -F";
      else if (!option.value.empty()) line += option.names.empty() ? " -f" : " -x";
      lines += fmt::format("{} -d {}\n", line, fish_text(option.doc));
    }
  }
  return fmt::format(kFish, fmt::join(known, " "), lines);
}

}  // namespace

std::string completion(const CommandHelp& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  if (shell == "zsh") return zsh(program);
  if (shell == "fish") return fish(program);
  fail_internal("no completion for {}", shell);
}

}  // namespace sparkpilot::cli
