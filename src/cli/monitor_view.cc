#include "cli/monitor_view.h"

#include <langinfo.h>
#include <sys/poll.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <ctime>
#define NCURSES_NOMACROS
#include <ncurses.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "hw/probe.h"
#include "monitor/sampler.h"
#include "monitor/view.h"

namespace sparkpilot::cli {
namespace {

using monitor::Canvas;
using monitor::Ink;
using monitor::Sort;

constexpr int kInks = static_cast<int>(Ink::hot) + 1;

// Holds the terminal while it is drawn on; restores it however the view ends.
class Screen {
 public:
  explicit Screen(bool colours) {
    constexpr const char* kElsewhere = "--once prints one reading, --json a line each second";
    const char* const term = std::getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) fail("the view needs a terminal; {}", kElsewhere);
    const std::string name = term ? term : "";
    if (name.empty() || name == "dumb") fail("the view cannot draw on a terminal \"{}\"; {}", name, kElsewhere);
    std::setlocale(LC_CTYPE, "");
    ascii_ = std::string(nl_langinfo(CODESET)) != "UTF-8";
    screen_ = newterm(nullptr, stdout, stdin);
    if (!screen_) fail("the view knows no terminal \"{}\"; {}", name, kElsewhere);
    raw();  // Ctrl-C becomes a key: the terminal is always restored first, however often it is pressed
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    choose_colours(has_colors() && colours);
  }
  ~Screen() {
    endwin();
    delscreen(screen_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool ascii() const { return ascii_; }
  int width() const { return getmaxx(stdscr); }
  int height() const { return getmaxy(stdscr); }

  void show(const Canvas& canvas) {
    werase(stdscr);
    for (int y = 0; y < canvas.height(); ++y) {
      for (int x = 0; x < canvas.width();) {
        const Ink ink = canvas.at(x, y).ink;
        const int begin = x;
        std::string run;
        for (; x < canvas.width() && canvas.at(x, y).ink == ink; ++x) run += monitor::utf8(canvas.at(x, y).symbol);
        wattrset(stdscr, static_cast<int>(inks_[static_cast<int>(ink)]));
        mvwaddstr(stdscr, y, begin, run.c_str());  // reports an error at the last corner although it has drawn
      }
    }
    wrefresh(stdscr);
  }
  void anew() { clearok(stdscr, TRUE); }

  // What Ctrl-Z usually does; restores the terminal while stopped.
  void stop() {
    endwin();
    std::signal(SIGTSTP, SIG_DFL);
    kill(0, SIGTSTP);
    anew();
  }

  // Waits for a key; ERR if none came. Sets `gone` if the terminal is gone.
  int key(int wait_ms, bool& gone) {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    const int ready = poll(&input, 1, wait_ms);
    if (ready > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL))) gone = true;
    wtimeout(stdscr, 0);
    const int key = wgetch(stdscr);  // also reports a new size, whose signal ends poll()
    constexpr int kMaxEmpty = 100;
    empty_ = ready > 0 && key == ERR ? empty_ + 1 : 0;
    if (empty_ > kMaxEmpty) gone = true;  // the input has ended
    return key;
  }

 private:
  void choose_colours(bool coloured) {
    std::fill(std::begin(inks_), std::end(inks_), A_NORMAL);
    inks_[static_cast<int>(Ink::dim)] = A_DIM;
    inks_[static_cast<int>(Ink::bright)] = A_BOLD;
    inks_[static_cast<int>(Ink::warn)] = A_BOLD;
    inks_[static_cast<int>(Ink::hot)] = A_REVERSE;
    if (!coloured) return;
    start_color();
    use_default_colors();
    struct Colour {
      Ink ink;
      short many, few;  // with 256 colours, with eight
    };
    constexpr Colour kColours[] = {
        {Ink::gpu, 114, COLOR_GREEN}, {Ink::cpu, 75, COLOR_BLUE},     {Ink::memory, 176, COLOR_MAGENTA},
        {Ink::io, 180, COLOR_CYAN},   {Ink::warn, 221, COLOR_YELLOW}, {Ink::hot, 203, COLOR_RED},
        {Ink::dim, 243, -1}};
    for (const Colour& colour : kColours) {
      const int index = static_cast<int>(colour.ink);
      const bool many = COLORS >= 256;
      init_pair(static_cast<short>(index + 1), many ? colour.many : colour.few, -1);
      inks_[index] = static_cast<attr_t>(COLOR_PAIR(index + 1)) | (colour.ink == Ink::hot ? A_BOLD : A_NORMAL);
      if (colour.ink == Ink::dim && !many) inks_[index] = A_DIM;
    }
  }

  SCREEN* screen_ = nullptr;
  bool ascii_ = false;
  int empty_ = 0;
  attr_t inks_[kInks] = {};
};

std::string clock_of_wall() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string name_of(Source& source) {
  const Identity identity = probe_identity(source);
  if (const auto known = gb10_system(identity)) return known->name;
  if (identity.product.substr(0, identity.vendor.size()) == identity.vendor) return identity.product;
  return identity.vendor + " " + identity.product;
}

enum class Act { none, draw, quit };

Act act_on(int key, monitor::ViewState& state, Screen& screen) {
  constexpr int kCtrlC = 3, kCtrlL = 12, kCtrlZ = 26, kEscape = 27;
  switch (key) {
    case 'q':
    case kCtrlC: return Act::quit;
    case kEscape:
      if (!state.help) return Act::none;
      state.help = false;
      return Act::draw;
    case 'h':
    case '?': state.help = !state.help; return Act::draw;
    case 's': state.sort = static_cast<Sort>((static_cast<int>(state.sort) + 1) % 4); return Act::draw;
    case 'g': state.sort = Sort::gpu; return Act::draw;
    case 'c': state.sort = Sort::cpu; return Act::draw;
    case 'm': state.sort = Sort::memory; return Act::draw;
    case 'p': state.sort = Sort::pid; return Act::draw;
    case ' ': state.paused = !state.paused; return Act::draw;
    case '+':
    case '=': state.interval_s = monitor::step_interval(state.interval_s, true); return Act::draw;
    case '-': state.interval_s = monitor::step_interval(state.interval_s, false); return Act::draw;
    case kCtrlL: screen.anew(); return Act::draw;
    case kCtrlZ: screen.stop(); return Act::draw;
    case KEY_RESIZE: return Act::draw;
    default: return Act::none;
  }
}

}  // namespace

void show_view(Source& source, double interval_s, bool colours) {
  const StopOnInterrupt stop(false);
  Screen screen(colours);
  monitor::Sampler sampler(source);
  monitor::History history;
  monitor::ViewState state;
  state.title = name_of(source);
  state.ascii = screen.ascii();
  state.interval_s = interval_s;
  state.clock = clock_of_wall();
  monitor::Sample sample = sampler.next();
  int64_t last = now_ns();
  constexpr double kFirst = 0.5;  // s until the first rates
  double wait_s = std::min(interval_s, kFirst);
  bool changed = true, gone = false;
  while (!gone && !stop.requested()) {
    if (changed) screen.show(draw(sample, history, state, screen.width(), screen.height()));
    constexpr int64_t kLongestWait = 100;  // ms until a signal is noticed
    const int64_t next = last + static_cast<int64_t>(wait_s * 1e9);
    const int64_t left_ms = state.paused ? kLongestWait : (next - now_ns()) / 1'000'000 + 1;
    const int key = screen.key(static_cast<int>(std::clamp<int64_t>(left_ms, 0, kLongestWait)), gone);
    const Act act = act_on(key, state, screen);
    if (act == Act::quit) break;
    changed = act == Act::draw;
    wait_s = std::min(wait_s, state.interval_s);
    if (state.paused || now_ns() < next) continue;
    sample = sampler.next();
    last = now_ns();
    wait_s = state.interval_s;
    history.add(sample);
    state.clock = clock_of_wall();
    changed = true;
  }
}

}  // namespace sparkpilot::cli
