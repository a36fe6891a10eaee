// A report as one HTML file that needs nothing else: no link leads further than to files next to it, style, figures and
// pictures are inside, and it is complete without its small script (which shows the values of figures under the
// pointer).
//
// All texts are escaped: nothing in a log or a file name becomes markup. The same calls give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "route/draw/plot.h"

namespace sparkpilot::drive {

struct Headline {
  std::string label, value;
  std::string note = {};  // small, below
};

// A file next to the page; of a film, the moment at which it begins.
struct PageLink {
  std::string file = {};
  std::optional<double> seconds = {};
};

struct PagePicture {
  std::string caption = {};
  std::vector<uint8_t> bytes = {};  // JPEG or PNG
  std::string alt = {};             // for those who cannot see it; empty: the caption
  PageLink link = {};               // where a click leads; no file: nowhere
};

// How a table's row looks: normal, wrong, not counted.
enum class Tone { plain, bad, faint };

class Page {
 public:
  explicit Page(std::string title, std::string subtitle = {});

  // Big numbers in a row; call it first.
  void figures(const std::vector<Headline>& figures);
  // What follows belongs to this section, until the next one.
  void section(const std::string& title);
  void text(const std::string& paragraph);
  void note(const std::string& text);
  void warning(const std::string& text);
  // Rows shorter than `headings` end in empty cells, longer ones are cut. A column whose cells all begin like numbers
  // is right-aligned. `tones`: of the rows, plain beyond the list's end; a cell must say the same in words.
  void table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
             const std::string& caption = {}, const std::vector<Tone>& tones = {});
  void plot(const Plot& plot, const std::string& caption = {});
  void histogram(const Histogram& histogram, const std::string& caption = {});
  // Fails (internal) if the bytes are neither JPEG nor PNG.
  void image(const std::string& caption, std::span<const uint8_t> jpeg_or_png);
  // Side by side if there is room.
  void images(const std::vector<PagePicture>& pictures);
  // A line that leads to a file next to the page.
  void link(const std::string& text, const PageLink& to);
  // Below everything: what made it, with what settings.
  void footer(const std::string& text);

  std::string str() const;

 private:
  void figure(const std::string& content, const std::string& caption, const char* kind);

  std::string title_, subtitle_, footer_;
  std::string body_;
  std::vector<std::string> sections_;
};

}  // namespace sparkpilot::drive
