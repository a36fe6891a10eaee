#include "route/draw/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "route/draw/markup.h"
#include "route/draw/page_parts.h"

namespace sparkpilot::drive {
namespace {

std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? bytes[i + k] : 0U);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kLetters[three >> (18 - 6 * k) & 63];
  }
  return out;
}

const char* kind_of(std::span<const uint8_t> bytes) {
  constexpr std::array<uint8_t, 3> kJpeg = {0xff, 0xd8, 0xff};
  constexpr std::array<uint8_t, 4> kPng = {0x89, 'P', 'N', 'G'};
  if (bytes.size() > 3 && std::equal(kJpeg.begin(), kJpeg.end(), bytes.begin())) return "jpeg";
  if (bytes.size() > 4 && std::equal(kPng.begin(), kPng.end(), bytes.begin())) return "png";
  fail_internal("page: a picture of {} bytes that is neither JPEG nor PNG", bytes.size());
}

// "./" makes it a file next to the page whatever the name looks like.
std::string address(const PageLink& link) {
  std::string out = "./";
  for (const char c : link.file) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
    if (plain) out += c;
    else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return link.seconds ? fmt::format("{}#t={:.2f}", out, *link.seconds) : out;
}

std::string picture(const PagePicture& picture) {
  const std::string image = fmt::format(R"(<img alt="{}" src="data:image/{};base64,{}">)",
                                        escape(picture.alt.empty() ? picture.caption : picture.alt),
                                        kind_of(picture.bytes), base64(picture.bytes));
  return picture.link.file.empty() ? image : fmt::format(R"(<a href="{}">{}</a>)", address(picture.link), image);
}

bool like_number(std::string_view cell) {
  if (cell.empty() || cell == "-" || cell == "–") return true;
  for (const std::string_view sign : {"-", "+", "\u2212", "<", ">", "±"}) {
    if (cell.starts_with(sign)) cell.remove_prefix(sign.size());
  }
  cell.remove_prefix(std::min(cell.find_first_not_of(' '), cell.size()));
  return !cell.empty() && cell[0] >= '0' && cell[0] <= '9';
}

}  // namespace

Page::Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::figures(const std::vector<Headline>& figures) {
  body_ += "<dl class=\"figures\">\n";
  for (const Headline& f : figures) {
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd>", escape(f.label), escape(f.value));
    if (!f.note.empty()) body_ += fmt::format("<dd class=\"small\">{}</dd>", escape(f.note));
    body_ += "</div>\n";
  }
  body_ += "</dl>\n";
}

void Page::section(const std::string& title) {
  if (!sections_.empty()) body_ += "</section>\n";
  sections_.push_back(title);
  body_ += fmt::format("<section id=\"s{}\">\n<h2>{}</h2>\n", sections_.size(), escape(title));
}

void Page::text(const std::string& paragraph) { body_ += fmt::format("<p>{}</p>\n", escape(paragraph)); }
void Page::note(const std::string& text) { body_ += fmt::format("<p class=\"note\">{}</p>\n", escape(text)); }
void Page::warning(const std::string& text) {
  body_ += fmt::format("<p class=\"note warning\" role=\"note\"><strong>Warning.</strong> {}</p>\n", escape(text));
}

void Page::table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                 const std::string& caption, const std::vector<Tone>& tones) {
  std::vector<const char*> sides(headings.size(), "");
  for (size_t c = 0; c < headings.size(); ++c) {
    const bool numbers = std::all_of(rows.begin(), rows.end(), [c](const std::vector<std::string>& row) {
      return c >= row.size() || like_number(row[c]);
    });
    if (numbers && !rows.empty()) sides[c] = " class=\"number\"";
  }
  body_ += "<div class=\"wide\"><table>\n";
  if (!caption.empty()) body_ += fmt::format("<caption>{}</caption>\n", escape(caption));
  body_ += "<thead><tr>";
  for (size_t c = 0; c < headings.size(); ++c) {
    body_ += fmt::format("<th scope=\"col\"{}>{}</th>", sides[c], escape(headings[c]));
  }
  body_ += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<std::string>& row = rows[r];
    const Tone tone = r < tones.size() ? tones[r] : Tone::plain;
    body_ += tone == Tone::bad ? "<tr class=\"bad\">" : tone == Tone::faint ? "<tr class=\"faint\">" : "<tr>";
    for (size_t c = 0; c < headings.size(); ++c) {
      body_ += fmt::format("<td{}>{}</td>", sides[c], c < row.size() ? escape(row[c]) : "");
    }
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void Page::figure(const std::string& content, const std::string& caption, const char* kind) {
  body_ += fmt::format(R"(<figure class="{}"><div class="wide">{}</div>)", kind, content);
  if (!caption.empty()) body_ += fmt::format("<figcaption>{}</figcaption>", escape(caption));
  body_ += "</figure>\n";
}

void Page::plot(const Plot& plot, const std::string& caption) { figure(svg(plot), caption, "plot"); }
void Page::histogram(const Histogram& histogram, const std::string& caption) {
  figure(svg(histogram), caption, "plot");
}

void Page::image(const std::string& caption, std::span<const uint8_t> jpeg_or_png) {
  figure(picture({caption, {jpeg_or_png.begin(), jpeg_or_png.end()}}), caption, "picture");
}

void Page::images(const std::vector<PagePicture>& pictures) {
  body_ += "<div class=\"gallery\">\n";
  for (const PagePicture& p : pictures) figure(picture(p), p.caption, "picture");
  body_ += "</div>\n";
}

void Page::link(const std::string& text, const PageLink& to) {
  body_ += fmt::format(R"(<p><a href="{}">{}</a></p>)", address(to), escape(text)) + "\n";
}

void Page::footer(const std::string& text) { footer_ = text; }

std::string Page::str() const {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'; script-src '{}'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" "
      "content=\"light dark\">\n<title>{}</title>\n<style>{}</style></head>\n<body>\n<header><h1>{}</h1>\n",
      kPageScriptHash, escape(title_), kPageStyle, escape(title_));
  if (!subtitle_.empty()) out += fmt::format("<p class=\"subtitle\">{}</p>\n", escape(subtitle_));
  if (sections_.size() > 2) {
    out += "<nav aria-label=\"Sections\">";
    for (size_t i = 0; i < sections_.size(); ++i) {
      out += fmt::format("<a href=\"#s{}\">{}</a> ", i + 1, escape(sections_[i]));
    }
    out += "</nav>\n";
  }
  out += "</header>\n<main>\n" + body_;
  if (!sections_.empty()) out += "</section>\n";
  out += "</main>\n";
  if (!footer_.empty()) out += fmt::format("<footer>{}</footer>\n", escape(footer_));
  return out + fmt::format("<script>{}</script>\n</body></html>\n", kPageScript);
}

}  // namespace sparkpilot::drive
