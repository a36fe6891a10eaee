// sparkpilot man: manual pages, made from the tables that --help prints.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/man_page.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

struct ManFlags {
  std::vector<std::string> words;
  std::string out;
};

int man(const CommandHelp& program, const ManFlags& flags) {
  if (!flags.out.empty() && !flags.words.empty()) fail("--out is for all pages: omit COMMAND");
  const auto pages = man_pages(program, program_version());
  if (flags.out.empty()) {
    std::string command;
    for (const std::string& word : flags.words) command += (command.empty() ? "" : " ") + word;
    const auto found =
        std::find_if(pages.begin(), pages.end(), [&](const auto& page) { return page.first == page_name(command); });
    if (found == pages.end()) fail("no command is named \"{}\"", command);
    print_data(found->second);
    return kDone;
  }
  make_folders(flags.out);
  for (const auto& [name, text] : pages) {
    AtomicFile file(std::filesystem::path(flags.out) / (name + ".1"));
    file.write(text);
    file.commit();
  }
  print(fmt::format("{}: {}\n", flags.out, count_of(static_cast<int64_t>(pages.size()), "page")));
  return kDone;
}

}  // namespace

void add_man(Program& program, Command app) {
  const auto flags = std::make_shared<ManFlags>();
  const Command command = add_command(program, app, "man", "print a manual page, or write all of them",
                                      "  sparkpilot man model info | man -l -\n"
                                      "  sparkpilot man --out ~/.local/share/man/man1",
                                      [app, flags] { return man(app.help(), *flags); });
  add_list(command, "command", flags->words, "COMMAND", "the command; the program itself without one");
  command.add_option("--out", flags->out, "write the pages of all commands into this folder").type_name("DIR");
}

}  // namespace sparkpilot::cli
