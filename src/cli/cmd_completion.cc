// sparkpilot completion: a shell's completion of this program.
#include <memory>

#include "cli/command.h"
#include "cli/completion.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {

void add_completion(Program& program, Command app) {
  const auto shell = std::make_shared<std::string>();
  const Command command = add_command(program, app, "completion", "print a shell's completion of this program",
                                      "  source <(sparkpilot completion bash)\n"
                                      "  sparkpilot completion zsh >~/.zfunc/_sparkpilot\n"
                                      "  sparkpilot completion fish >~/.config/fish/completions/sparkpilot.fish\n"
                                      "An installed package has them in their places.",
                                      [app, shell] {
                                        print_data(completion(app.help(), *shell));
                                        return kDone;
                                      });
  add_choice(command, "shell", *shell, kShells, "bash, zsh or fish", "SHELL").required();
}

}  // namespace sparkpilot::cli
